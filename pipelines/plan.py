"""The plan: what a run would do with each stage, why, and what it would take. Runs nothing.

plan = make_plan(Path.cwd(), targets=["evaluate"], overrides=["distractors=random"])
plan.rows[3].outlook.will        -> Will.RUN
plan.critical_path               -> ("distractors", "warmup", ...)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pipelines.dag.nodes import Node
from pipelines.dag.outlook import Outlook, Will
from pipelines.history import Prediction, predict
from stages.runtime import runlog


@dataclass(frozen=True)
class PlanRow:
    """One stage of a plan."""

    node: Node
    outlook: Outlook
    prediction: Prediction
    """What it takes if it runs."""

    @property
    def runs(self) -> bool:
        return self.outlook.will is Will.RUN


@dataclass(frozen=True)
class Plan:
    """Every stage that the targets need, upstream first, under one composition of parameters."""

    rows: tuple[PlanRow, ...]
    params: str
    """The text of `params.yaml` that the plan is for."""
    overrides: tuple[str, ...]
    targets: tuple[str, ...]
    force: bool = False

    def __iter__(self) -> Any:
        return iter(self.rows)

    @property
    def running(self) -> tuple[PlanRow, ...]:
        return tuple(row for row in self.rows if row.runs)

    @property
    def critical_path(self) -> tuple[str, ...]:
        """The stages that bound the wall time, however much runs in parallel."""
        return critical_path(self.rows)

    @property
    def seconds(self) -> float | None:
        """Predicted seconds along the critical path; None where a stage on it is unknown."""
        by_name = {row.node.name: row.prediction.seconds for row in self.rows}
        return total([by_name[name] for name in self.critical_path])


def make_plan(
    root: Path, targets: Sequence[str] = (), overrides: Sequence[str] = (), force: bool = False
) -> Plan:
    """Compose the parameters, ask DVC about each stage, and predict from the run log."""
    from pipelines.dag.project import open_project, outlooks
    from pipelines.params import compose_text
    from stages.runtime.params import parse_params

    text = compose_text(overrides, root)
    params = yaml.safe_load(text)
    parse_params(params)
    project = open_project(root, text)
    found = outlooks(project, targets, force)
    runs = runlog.read(root / runlog.RUN_LOG)
    rows = tuple(
        PlanRow(project.nodes[name], outlook, prediction(runs, params, outlook))
        for name, outlook in found.items()
    )
    return Plan(rows, text, tuple(overrides), tuple(targets), force)


def prediction(
    runs: Sequence[Mapping[str, Any]], params: Mapping[str, Any], outlook: Outlook
) -> Prediction:
    """What a stage takes if it runs; stages that Longline has no variants of are unknown."""
    subtree = params.get(outlook.stage)
    variant = str(subtree.get("kind")) if isinstance(subtree, Mapping) else ""
    return predict(runs, outlook.stage, variant, str(params.get("profile")), outlook.identity)


def critical_path(rows: Sequence[PlanRow]) -> tuple[str, ...]:
    """The chain of running stages that takes longest by prediction; unknown counts as nothing,
    and between equals the chain with more stages wins."""
    best: dict[str, tuple[float, int, tuple[str, ...]]] = {}
    for row in rows:
        before = max(
            (best[name] for name in row.node.upstream if name in best), default=(0.0, 0, ())
        )
        if row.runs:
            seconds = before[0] + (row.prediction.seconds or 0.0)
            before = (seconds, before[1] + 1, (*before[2], row.node.name))
        best[row.node.name] = before
    return max(best.values(), default=(0.0, 0, ()))[2]


def total(values: Sequence[float | None]) -> float | None:
    """The sum, or None if any part is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def as_json(plan: Plan) -> dict[str, Any]:
    """The plan for programs; unknown numbers are null."""
    return {
        "targets": list(plan.targets),
        "overrides": list(plan.overrides),
        "stages": [
            {
                "stage": row.node.name,
                "will": str(row.outlook.will),
                "certain": row.outlook.certain,
                "reasons": list(row.outlook.reasons),
                "identity": row.outlook.identity,
                "upstream": list(row.node.upstream),
                "resources": {
                    "cpus": row.node.resources.cpus,
                    "gpus": row.node.resources.gpus,
                },
                "predicted": {
                    "seconds": row.prediction.seconds if row.runs else 0.0,
                    "tokens": row.prediction.tokens if row.runs else 0,
                    "cost": row.prediction.cost if row.runs else 0.0,
                    "basis": row.prediction.basis,
                },
            }
            for row in plan.rows
        ],
        "will_run": [row.node.name for row in plan.running],
        "critical_path": list(plan.critical_path),
        "predicted_seconds": plan.seconds,
        "gpus": max((row.node.resources.gpus for row in plan.running), default=0),
    }
