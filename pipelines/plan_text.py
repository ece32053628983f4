"""A plan in words: for the terminal, and as Markdown for Prefect's artifacts."""

from __future__ import annotations

from pipelines.history import Prediction
from pipelines.plan import Plan, PlanRow, total
from pipelines.terminal import terminal


def show(plan: Plan) -> None:
    """Print the plan as a table with its summary."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("stage", "will be", "seconds", "tokens", "cpus/gpus", "why"):
        right = column in ("seconds", "tokens", "cpus/gpus")
        table.add_column(
            column, justify="right" if right else "left", no_wrap=column == "stage",
            overflow="fold",
        )  # fmt: skip
    colours = {"fresh": "dim", "cached": "cyan", "run": "bold"}
    for row in plan.rows:
        style = colours[row.outlook.will]
        table.add_row(
            Text(row.node.name, style), Text(state(row), style), _seconds(row), _tokens(row),
            f"{row.node.resources.cpus}/{row.node.resources.gpus}",
            Text(why(row), "" if row.runs else "dim"),
        )  # fmt: skip
    console = terminal()
    console.print(table)
    console.print()
    for line in summary(plan):
        console.print(line, markup=False)


def summary(plan: Plan) -> list[str]:
    """The plan in a few lines: how much runs, how long, on what."""
    counts = {
        will: sum(row.outlook.will == will for row in plan.rows)
        for will in ("fresh", "cached", "run")
    }
    lines = [f"{counts['fresh']} fresh, {counts['cached']} restored, {counts['run']} to run"]
    if not plan.running:
        return [*lines, "nothing to compute"]
    if any(not row.outlook.certain for row in plan.running):
        lines[0] += " (those after a stage that runs: unless its output stays the same)"
    lines.append(f"critical path: {' > '.join(plan.critical_path)}")
    took = [row.prediction for row in plan.running]
    unknown = sum(prediction.seconds is None for prediction in took)
    work = sum(prediction.seconds or 0 for prediction in took)
    if unknown == len(took):
        lines.append("predicted time: unknown (no earlier run)")
    elif unknown:
        lines.append(f"predicted time: at least {duration(work)} of work; {unknown} unknown")
    else:
        lines.append(
            f"predicted time: {duration(plan.seconds or 0)} along it, {duration(work)} of work"
        )
    lines.append(f"predicted tokens: {_known(took, 'tokens')}; cost: {_known(took, 'cost')}")
    gpus = max(row.node.resources.gpus for row in plan.running)
    lines.append(f"GPUs needed: {gpus or 'none'}")
    return lines


def markdown(plan: Plan) -> str:
    """The plan as a Markdown table."""
    lines = ["| stage | will be | seconds | why |", "|---|---|---:|---|"]
    lines += [
        f"| {row.node.name} | {state(row)} | {_seconds(row)} | {_escape(why(row))} |"
        for row in plan.rows
    ]
    return "\n".join([*lines, "", *(f"- {_escape(line)}" for line in summary(plan))])


def state(row: PlanRow) -> str:
    return {"fresh": "fresh", "cached": "restored", "run": "run"}[row.outlook.will]


def why(row: PlanRow) -> str:
    reasons = row.outlook.reasons
    shown = "; ".join(reasons[:3])
    return shown + (f"; {len(reasons) - 3} more" if len(reasons) > 3 else "")


def duration(seconds: float) -> str:
    """Seconds as a person says them.

    >>> duration(7.4), duration(135), duration(7300)
    ('7 s', '2 min 15 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _seconds(row: PlanRow) -> str:
    if not row.runs:
        return "-"
    return "unknown" if row.prediction.seconds is None else f"{row.prediction.seconds:.0f}"


def _tokens(row: PlanRow) -> str:
    if not row.runs:
        return "-"
    return "unknown" if row.prediction.tokens is None else f"{row.prediction.tokens:,}"


def _known(predictions: list[Prediction], field: str) -> str:
    values = [getattr(prediction, field) for prediction in predictions]
    whole = total(values)
    if whole is not None:
        return f"{whole:,.0f}" if field == "tokens" else f"{whole:.2f}"
    known = [value for value in values if value is not None]
    if not known:
        return "unknown"
    return f"at least {sum(known):,.0f}" if field == "tokens" else f"at least {sum(known):.2f}"


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
