"""What a grid must compute: each stage with each identity once, however many cells need it."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import yaml

from pipelines.ablate.cell import numbers
from pipelines.ablate.grid import Cell, Grid, cells
from pipelines.dag.outlook import Will
from pipelines.history import Prediction
from pipelines.plan import Plan, PlanRow, critical_path, make_plan, total
from schemas.errors import UserError


@dataclass(frozen=True)
class CellPlan:
    """A cell and what each of its stages needs."""

    cell: Cell
    plan: Plan

    @property
    def identity(self) -> str:
        """Of everything the cell's results follow from."""
        return " ".join(row.outlook.identity for row in self.plan.rows)

    def row(self, stage: str) -> PlanRow:
        return next(row for row in self.plan.rows if row.node.name == stage)


@dataclass(frozen=True)
class Execution:
    """One stage to run once, in the workspace of its owner: the first cell that needs it."""

    stage: str
    identity: str
    owner: str
    needed_by: tuple[str, ...]
    upstream: tuple[tuple[str, str], ...]
    """The executions to wait for: (stage, identity)."""
    row: PlanRow

    @property
    def key(self) -> tuple[str, str]:
        return self.stage, self.identity


@dataclass(frozen=True)
class GridPlan:
    """The cells of a grid, and the executions they share, upstream first."""

    grid: Grid
    cells: tuple[CellPlan, ...]
    executions: tuple[Execution, ...]

    @property
    def demands(self) -> int:
        """Stages over all cells: what running every cell by itself would go through."""
        return sum(len(cell.plan.rows) for cell in self.cells)

    @property
    def wanted(self) -> int:
        """Stages over all cells that are not in the cache."""
        return sum(len(cell.plan.running) for cell in self.cells)

    @property
    def work(self) -> Prediction:
        """Predicted seconds and tokens of all executions together; unknown if any is."""
        rows = [execution.row.prediction for execution in self.executions]
        tokens = total([row.tokens for row in rows])
        return Prediction(
            seconds=total([row.seconds for row in rows]),
            tokens=None if tokens is None else round(tokens),
        )

    @property
    def longest(self) -> float | None:
        """Predicted seconds of the cell with the longest critical path."""
        times = [
            total([cell.row(name).prediction.seconds for name in critical_path(cell.plan.rows)])
            for cell in self.cells
        ]
        known = [time for time in times if time is not None]
        return max(known) if len(known) == len(times) and known else None


def plan_grid(root: Path, grid: Grid) -> GridPlan:
    """Plan every cell against the workspace as it stands, and join what they share."""
    planned = tuple(CellPlan(cell, make_plan(root, (), cell.overrides)) for cell in cells(grid))
    return GridPlan(grid, planned, _executions(planned))


def check_metrics(plan: GridPlan, metrics: Sequence[str]) -> None:
    """Refuse metrics of a stage that measures nothing, before anything runs.

    Which keys a stage writes only shows when it has run.
    """
    nodes = [row.node for cell in plan.cells for row in cell.plan.rows]
    stages = {node.name for node in nodes if f"reports/{node.name}.json" in node.outs}
    for metric in metrics:
        stage, _, key = metric.partition(".")
        if stage not in stages or not key:
            raise UserError(
                f"no stage has a metric '{metric}'",
                allowed=[f"{name}.KEY" for name in stages],
                fix="name it as STAGE.key, a number in reports/STAGE.json",
            )


def new_metrics(root: Path, plan: GridPlan, metrics: Sequence[str]) -> list[str]:
    """A line for each metric that its stage did not write in this workspace: right where the grid
    adds it, and else a slip, which would only show when all cells have run."""
    found = []
    for metric in metrics:
        stage = metric.partition(".")[0]
        path = root / "reports" / f"{stage}.json"
        with suppress(OSError, ValueError):
            known = numbers(json.loads(path.read_text(encoding="utf-8")), stage)
            if metric not in known:
                near = difflib.get_close_matches(metric, known, 3) or list(known)[:5]
                found.append(f"note: no {metric} in {path.relative_to(root)} as it is; it has, "
                             f"among {len(known)}: {', '.join(near)}")  # fmt: skip
    return found


def _executions(planned: tuple[CellPlan, ...]) -> tuple[Execution, ...]:
    needed: dict[tuple[str, str], list[str]] = {}
    first: dict[tuple[str, str], tuple[CellPlan, PlanRow]] = {}
    for cell in planned:
        for row in cell.plan.running:
            key = (row.node.name, row.outlook.identity)
            needed.setdefault(key, []).append(cell.cell.name)
            first.setdefault(key, (cell, row))
    found = []
    for key, (owner, row) in first.items():
        upstream = [owner.row(name) for name in row.node.upstream]
        found.append(
            Execution(
                stage=row.node.name,
                identity=row.outlook.identity,
                owner=owner.cell.name,
                needed_by=tuple(needed[key]),
                upstream=tuple(
                    (above.node.name, above.outlook.identity)
                    for above in upstream
                    if above.outlook.will is Will.RUN
                ),
                row=row,
            )
        )
    return tuple(found)


def profile_of(plan: GridPlan) -> str:
    """The profile that the cells run, or `several`."""
    names = {str(yaml.safe_load(cell.plan.params).get("profile")) for cell in plan.cells}
    return names.pop() if len(names) == 1 else "several"
