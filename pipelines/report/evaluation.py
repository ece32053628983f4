"""Evaluation: headline numbers, and the same numbers by slice.

Headline intervals are those of reports/details/evaluate.json. By slice, rewards come from
reports/plots/evaluate.csv; the outcome and the reward model's pairs are computed here from
data/evaluations with the stage's own functions and seed, so the intervals are made the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.report.charts import Chart, Points, comparison_chart, line_chart
from pipelines.report.estimates import Estimate, number
from pipelines.report.facts import Row, Workspace
from stages.evaluate._slices import SLICES, by_slice, difference, mean, select

SLICE_TITLES = {
    "budget": "context length (token budget)",
    "hops": "hops",
    "gold_position": "position of the last gold document",
    "hardest_tier": "hardest distractor tier",
}


@dataclass(frozen=True)
class Headline:
    """One key number: its name, estimate, and what the interval excludes."""

    name: str
    estimate: Estimate
    words: tuple[str, ...]
    signed: bool = False


@dataclass(frozen=True)
class Evaluation:
    slices: tuple[Chart, ...]
    pairs: tuple[Chart, ...]
    best_of: tuple[Chart, ...]
    measures: tuple[tuple[str, Estimate, Estimate, Estimate, Estimate], ...]
    """Measure, warm-up, policy, paired difference, policy without gold documents."""


def headline(workspace: Workspace) -> list[Headline]:
    """The key numbers of the run; empty before `evaluate` has run."""
    metrics = workspace.metrics.get("evaluate")
    if metrics is None:
        return []
    reward = metrics.get("answers", {}).get("reward", {})
    blind = Estimate.of(metrics.get("blind", {}).get("reward"))
    model = metrics.get("reward_model", {})
    found = [
        Headline(f"{name} reward", Estimate.of(reward.get(system)), (words,))
        for system, name, words in (
            ("warmup", "Warm-up", "the model that training on rewards starts from"),
            ("policy", "Policy", "after training on rewards, same prompts"),
        )
    ]
    gain = Estimate.of(reward.get("difference"))
    found.append(Headline("Policy − warm-up, paired", gain, (gain.against(0),), signed=True))
    pairs = Estimate.of(model.get("pair_accuracy"))
    found.append(
        Headline("Reward model pair accuracy", pairs,
                 (pairs.against(0.5, "0.5 (a coin)"), pairs.against(0.6)))
    )  # fmt: skip
    best = best_of(metrics)
    if best:
        size, largest = best[-1][0], Estimate.of(best[-1][1]["over_random"])
        others = [(n, Estimate.of(e["over_random"])) for n, e in best[:-1]]
        found.append(
            Headline(
                f"Best of {size} over a random pick", largest,
                (largest.against(0),
                 *(f"N = {n}: {e.text(signed=True)}, {e.against(0)}" for n, e in others)),
                signed=True,
            )
        )  # fmt: skip
    words = ["what it still gets right, it did not read in the context"]
    read = _reading_gain(workspace)
    if read is not None:
        words.append(f"policy − blind, paired: {read.text(signed=True)}, {read.against(0)}")
    found.append(Headline("Blind control: policy reward without the gold documents",
                          blind, tuple(words)))  # fmt: skip
    return found


def best_of(metrics: Row) -> list[tuple[int, Row]]:
    """(N, entry) of the best-of-N results, by N."""
    entries = metrics.get("reward_model", {})
    return sorted(
        (int(key.removeprefix("best_of_")), value)
        for key, value in entries.items() if key.startswith("best_of_")
    )  # fmt: skip


def evaluation(workspace: Workspace) -> Evaluation | None:
    """Everything by slice; None before `evaluate` has run."""
    metrics = workspace.metrics.get("evaluate")
    if metrics is None or not workspace.has("evaluations"):
        return None
    blind = metrics.get("blind", {})
    return Evaluation(
        slices=tuple(_slices(workspace)),
        pairs=tuple(_pairs(workspace)),
        best_of=tuple(_best_of_chart(metrics)),
        measures=tuple(
            (measure, Estimate.of(e.get("warmup")), Estimate.of(e.get("policy")),
             Estimate.of(e.get("difference")), Estimate.of(blind.get(measure)))
            for measure, e in sorted(
                metrics.get("answers", {}).items(), key=lambda item: (item[0] != "reward", item[0])
            )
        ),
    )  # fmt: skip


def _values(workspace: Workspace, systems: Sequence[str], measures: Sequence[str]) -> list[Row]:
    return workspace.query(
        "SELECT question_id, system, measure, sample, value, budget_tokens, hops, gold_position, "
        "hardest_tier FROM evaluations WHERE list_contains(?, system) AND "
        "list_contains(?, measure) ORDER BY question_id, system, measure, sample",
        list(systems), list(measures),
    )  # fmt: skip


def _reading_gain(workspace: Workspace) -> Estimate | None:
    if not workspace.has("evaluations"):
        return None
    rows = _values(workspace, ["policy", "blind"], ["reward"])
    policy, blind = select(rows, "policy", "reward"), select(rows, "blind", "reward")
    return Estimate.of(difference(policy, blind, workspace.seed("evaluate"))) if blind else None


def _slices(workspace: Workspace) -> list[Chart]:
    table = workspace.plot("evaluate")
    have = {row["measure"] for row in table}
    outcome = workspace.outcome_measure()
    for measure in dict.fromkeys(("reward", outcome)):
        if measure not in have:
            rows = _values(workspace, ["warmup", "policy"], [measure])
            if rows:
                table += by_slice(rows, "warmup", "policy", measure, workspace.seed("evaluate"))
    charts = []
    for name, words in SLICE_TITLES.items():
        for measure in dict.fromkeys(("reward", outcome)):
            found = [row for row in table if row["slice"] == name and row["measure"] == measure]
            if found:
                charts.append(_slice_chart(name, words, measure, found))
    return charts


def _slice_chart(name: str, words: str, measure: str, found: Sequence[Row]) -> Chart:
    by = {(str(_key(row["bucket"])), row["system"]): row for row in found}
    buckets = list(dict.fromkeys(str(_key(row["bucket"])) for row in found))
    empty = {"value": None, "low": None, "high": None, "n": 0}

    def column(system: str) -> list[Mapping[str, Any]]:
        return [{**(e := by.get((b, system), empty)), "n": int(e["n"] or 0)} for b in buckets]

    return comparison_chart(
        f"{measure.capitalize()} by {words}", [bucket_label(name, b) for b in buckets],
        {"warm-up": column("warmup"), "policy": column("policy")}, column("difference"),
        value=measure,
    )  # fmt: skip


def _key(bucket: Any) -> Any:
    return int(bucket) if isinstance(bucket, float) and bucket.is_integer() else bucket


def bucket_label(slice_name: str, bucket: str) -> str:
    """What a reader calls a bucket: `≤ 96`, `2 hops`, `first third`, `tier1`."""
    if slice_name == "budget":
        return f"≤ {int(bucket):,}"
    if slice_name == "hops":
        return f"{bucket} hop{'' if bucket == '1' else 's'}"
    if slice_name == "gold_position":
        return bucket.split(" ", 1)[-1]
    return bucket


def _pairs(workspace: Workspace) -> list[Chart]:
    rows = select(
        _values(workspace, ["reward_model"], ["pair_correct"]), "reward_model", "pair_correct"
    )
    charts = []
    for name, bucket_of in SLICES.items() if rows else ():
        buckets = sorted({bucket_of(row) for row in rows})
        found = [
            mean([row for row in rows if bucket_of(row) == bucket], workspace.seed("evaluate"))
            for bucket in buckets
        ]
        words = SLICE_TITLES.get(name, name)
        charts.append(
            comparison_chart(
                f"Pair accuracy by {words}", [bucket_label(name, b) for b in buckets],
                {"reward model": found}, None, value="pair accuracy", reference=0.5,
            )
        )  # fmt: skip
    return charts


def _best_of_chart(metrics: Row) -> list[Chart]:
    entries = best_of(metrics)
    if not entries:
        return []
    sizes = [float(size) for size, _ in entries]
    labels = {"best_of_n": "reward model", "random_pick": "random", "oracle": "oracle"}
    series = []
    for i, (system, label) in enumerate(labels.items()):
        found = [Estimate.of(entry.get(system)) for _, entry in entries]
        series.append(
            Points(label, [size * (1 + 0.03 * (i - 1)) for size in sizes],
                   [e.value for e in found], [e.low for e in found], [e.high for e in found])
        )  # fmt: skip
    chart = line_chart("Best of N: outcome of the answer picked", series, x="N candidates",
                       y="outcome", ticks=sizes, log_x=True)  # fmt: skip
    # The points are moved a little so that intervals do not hide each other; the table is exact.
    rows = tuple(
        (size, *(Estimate.of(entry.get(s)).text() for s in labels),
         Estimate.of(entry.get("over_random")).text(signed=True),
         Estimate.of(entry.get("over_random")).against(0))
        for size, entry in entries
    )  # fmt: skip
    columns = ("N", *labels.values(), "over random, paired", "in words")
    alt = f"{chart.title}. " + "; ".join(
        f"N = {size}: " + ", ".join(
            f"{label} {number(entry[s]['value'])}" for s, label in labels.items() if s in entry
        )
        for size, entry in entries
    )  # fmt: skip
    return [Chart(chart.title, alt, chart.svg, columns, rows)]
