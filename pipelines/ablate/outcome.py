"""From the cells of a grid to its comparison: read their metrics, and write the pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.ablate.cell import saved_commit, saved_metrics
from pipelines.ablate.grid import baseline
from pipelines.ablate.page import FOLDER, write_page
from pipelines.ablate.planning import CellPlan, GridPlan
from pipelines.ablate.results import CellResult, Summary, summarise
from pipelines.ablate.sharing import equal_inputs
from pipelines.history import spent
from pipelines.plan import total
from stages.runtime import runlog


@dataclass(frozen=True)
class Outcome:
    """How a cell ended: `done` with the commit of its experiment, `failed` or `not run`."""

    status: str
    commit: str = ""
    error: str = ""


def cell_results(
    root: Path, plan: GridPlan, outcomes: Mapping[str, Outcome]
) -> tuple[CellResult, ...]:
    """What each cell measured, and what its stages took when they ran (whichever cell ran them)."""
    runs = runlog.read(root / runlog.RUN_LOG)
    equal = equal_inputs(root)
    return tuple(_result(root, cell, outcomes[cell.cell.name], runs, equal) for cell in plan.cells)


def write_outcome(
    root: Path,
    plan: GridPlan,
    outcomes: Mapping[str, Outcome],
    metrics: Sequence[str],
    command: str,
) -> Path:
    """Compare the arms and write `reports/ablations/NAME/`; returns the page."""
    results = cell_results(root, plan, outcomes)
    summary = summarise(results, baseline(plan.grid), metrics)
    return write_page(root / FOLDER, plan.grid.name, summary, results, command, notes(plan))


def saved_summary(root: Path, plan: GridPlan, metrics: Sequence[str]) -> Summary:
    """The comparison of the cells that are saved as experiments now."""
    outcomes = {}
    for cell in plan.cells:
        commit = saved_commit(root, cell.cell.name, cell.identity)
        outcomes[cell.cell.name] = Outcome("done", commit) if commit else Outcome("not run")
    return summarise(cell_results(root, plan, outcomes), baseline(plan.grid), metrics)


def notes(plan: GridPlan) -> list[str]:
    """Sentences that a reader of the numbers needs."""
    found = [plan.grid.description] if plan.grid.description else []
    found.append(f"{len(plan.cells)} cells go through {plan.demands} stages; shared ones ran once.")
    return found


def _result(
    root: Path,
    cell: CellPlan,
    outcome: Outcome,
    runs: list[dict],
    equal: Mapping[str, tuple[str, ...]],
) -> CellResult:
    nodes = {row.node.name: row.node for row in cell.plan.rows}
    took = [
        spent(runs, equal.get(row.outlook.identity, (row.outlook.identity,)))
        for row in cell.plan.rows
        if row.node.name in runlog_stages(runs)
    ]
    tokens = total([one.tokens for one in took]) if took else None
    return CellResult(
        name=cell.cell.name,
        settings=dict(cell.cell.settings),
        seeds=dict(cell.cell.seeds),
        status=outcome.status,
        metrics=saved_metrics(root, outcome.commit, nodes) if outcome.commit else {},
        seconds=total([one.seconds for one in took]) if took else None,
        tokens=None if tokens is None else round(tokens),
        error=outcome.error,
    )


def runlog_stages(runs: list[dict]) -> set[str]:
    """Stages that write to the run log; guards such as `params` do not."""
    return {str(run.get("stage")) for run in runs}
