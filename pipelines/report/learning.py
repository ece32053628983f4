"""Learning curves: the stages' own CSV files, and what the rollouts say step by step."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.report.charts import Chart, Points, line_chart
from pipelines.report.facts import Row, Workspace

_MOST_POINTS = 200


@dataclass(frozen=True)
class Curves:
    """The charts of one training stage; none when it has no curve yet."""

    stage: str
    title: str
    charts: tuple[Chart, ...]
    note: str = ""


def learning_curves(workspace: Workspace) -> list[Curves]:
    return [
        Curves("warmup", "Warm-up", tuple(_warmup(workspace.plot("warmup")))),
        Curves("reward_model", "Reward model", tuple(_reward_model(workspace))),
        Curves(
            "policy", "Policy", tuple(_policy(workspace)),
            "From every rollout kept. A group is the answers to one question in one step; a group "
            "whose rewards are all equal has no signal: its advantages are zero.",
        ),
    ]  # fmt: skip


def curve(
    title: str, rows: list[Row], columns: dict[str, str], y: str, *, x: str = "step",
    zero: bool = False,
) -> list[Chart]:  # fmt: skip
    """A chart of these columns (column -> label) over `x`; none without values."""
    present = {
        column: label for column, label in columns.items()
        if any(isinstance(row.get(column), float | int) for row in rows)
    }  # fmt: skip
    if not present or not rows or x not in rows[0]:
        return []
    rows = _thinned(rows)
    steps = [float(row[x]) for row in rows]
    series = [Points(label, steps, [row.get(c) for row in rows]) for c, label in present.items()]
    return [line_chart(title, series, x=x, y=y, zero=zero)]


def _warmup(rows: list[Row]) -> list[Chart]:
    lessons = list(dict.fromkeys(str(row.get("lesson", "training")) for row in rows))
    charts = []
    for column, y in (("loss", "loss"), ("token_accuracy", "token accuracy")):
        series = []
        for lesson in lessons:
            inside = _thinned([r for r in rows if str(r.get("lesson", "training")) == lesson])
            values = [row.get(column) for row in inside]
            if any(value is not None for value in values):
                series.append(Points(lesson, [float(r["step"]) for r in inside], values))
        if series:
            title = f"Warm-up: {y} by step"
            charts.append(line_chart(title, series, x="optimiser step", y=y, zero=True))
    return charts


def _reward_model(workspace: Workspace) -> list[Chart]:
    rows = workspace.plot("reward_model")
    return [
        *curve("Reward model: loss by step", rows, {"loss": "loss"}, "loss", zero=True),
        *curve("Reward model: accuracy on training pairs by step", rows,
               {"accuracy": "accuracy"}, "accuracy", zero=True),
        *curve("Reward model: margin by step", rows, {"margin": "margin"}, "margin", zero=True),
    ]  # fmt: skip


def _policy(workspace: Workspace) -> list[Chart]:
    charts: list[Chart] = []
    if workspace.has("rollouts"):
        steps = workspace.query(_STEPS)
        charts += curve("Policy: reward by step", steps,
                        {"reward": "mean reward", "spread": "std inside groups"}, "reward",
                        zero=True)  # fmt: skip
        charts += curve("Policy: groups without signal by step", steps,
                        {"silent": "share of groups"}, "share", zero=True)  # fmt: skip
        charts += _parts(workspace)
    rows = workspace.plot("policy")
    skip = {"step", "reward", "reward_std", "groups_without_signal"} if charts else {"step"}
    for column in rows[0] if rows else ():
        if column not in skip:
            charts += curve(f"Policy: {column.replace('_', ' ')} by step, as logged", rows,
                            {column: column}, column.replace("_", " "), zero=True)  # fmt: skip
    return charts


_STEPS = """
WITH groups AS (
    SELECT step, question_id, stddev_pop(reward) AS spread, sum(reward) AS total,
           count(reward) AS n
    FROM rollouts GROUP BY step, question_id
)
SELECT step, sum(total) / nullif(sum(n), 0) AS reward, avg(spread) AS spread,
       avg(CASE WHEN spread < 1e-9 THEN 1.0 ELSE 0.0 END) AS silent
FROM groups GROUP BY step ORDER BY step
"""


def _parts(workspace: Workspace) -> list[Chart]:
    rows = workspace.query(
        "WITH parts AS (SELECT step, unnest(map_entries(parts)) AS part FROM rollouts) "
        "SELECT step, part.key AS name, avg(part.value) AS mean FROM parts "
        "GROUP BY ALL ORDER BY step, name"
    )
    names = sorted({str(row["name"]) for row in rows})
    wide: dict[int, Row] = {}
    for row in rows:
        wide.setdefault(row["step"], {"step": row["step"]})[row["name"]] = row["mean"]
    return curve("Policy: mean reward parts by step", list(wide.values()),
                 {name: name for name in names}, "mean of the part", zero=True)  # fmt: skip


def _thinned(rows: list[Row]) -> list[Row]:
    """Every k-th row and the last, so that a long training stays a small drawing."""
    step = -(-len(rows) // _MOST_POINTS)
    if step <= 1:
        return rows
    return [row for i, row in enumerate(rows) if i % step == 0 or i == len(rows) - 1]
