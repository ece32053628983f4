"""The plan of a grid in words."""

from __future__ import annotations

from pipelines.ablate.planning import GridPlan
from pipelines.plan_text import duration


def grid_summary(plan: GridPlan) -> list[str]:
    """A few lines: cells, stages, what runs once, what is there, how long it takes."""
    axes = ", ".join(f"{key} ({len(values)})" for key, values in plan.grid.axes)
    lines = [
        f"{plan.grid.name}: {len(plan.cells)} cells over {axes}",
        f"{plan.demands} stages in all, {plan.demands - plan.wanted} of them there; "
        f"{len(plan.executions)} unique executions"
        + (f" instead of {plan.wanted}" if len(plan.executions) < plan.wanted else ""),
    ]
    work = plan.work
    if not plan.executions:
        return [*lines, "nothing to compute"]
    by_stage: dict[str, int] = {}
    for execution in plan.executions:
        by_stage[execution.stage] = by_stage.get(execution.stage, 0) + 1
    lines.append("to run: " + ", ".join(f"{stage} x{count}" for stage, count in by_stage.items()))
    if work.seconds is None:
        unknown = sum(e.row.prediction.seconds is None for e in plan.executions)
        lines.append(f"predicted time: unknown for {unknown} of {len(plan.executions)} executions")
    else:
        longest = plan.longest
        least = f"; the longest cell alone {duration(longest)}" if longest is not None else ""
        lines.append(f"predicted: {duration(work.seconds)} of work{least}")
    return lines
