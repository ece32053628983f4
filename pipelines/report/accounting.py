"""Row accounting and run times: in = out + quarantined(rule) + dropped(reason), seconds a stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.report.facts import Workspace
from stages.runtime.layout import STAGES


@dataclass(frozen=True)
class Account:
    """The account of one dataset."""

    stage: str
    dataset: str
    rows_in: int
    rows_out: int
    quarantined: dict[str, int]
    dropped: dict[str, int]
    balanced: bool


@dataclass(frozen=True)
class StageTime:
    """The last run of a stage; `seconds` is None where no run succeeded."""

    stage: str
    variant: str
    seconds: float | None
    time: str | None
    machine: str
    failed_since: int
    """Failed runs after the last successful one."""


def balance(accounting: Mapping[str, Any]) -> int:
    """Rows that the account does not explain: 0 when it holds."""
    return int(
        accounting["in"]
        - accounting["out"]
        - sum(accounting["quarantined"].values())
        - sum(accounting["dropped"].values())
    )


def accounts(workspace: Workspace) -> list[Account]:
    """One account a dataset, in the order of the pipeline."""
    writer = {dataset: stage.name for stage in STAGES.values() for dataset in stage.writes}
    return [
        Account(
            writer.get(name, "?"),
            name,
            int(account["in"]),
            int(account["out"]),
            dict(account["quarantined"]),
            dict(account["dropped"]),
            balance(account) == 0,
        )
        for name, dataset in workspace.datasets.items()
        for account in [dataset.meta["accounting"]]
    ]


def stage_times(workspace: Workspace) -> list[StageTime]:
    """Every stage, run or not."""
    times = []
    for stage in STAGES:
        runs = [run for run in workspace.runs if run.get("stage") == stage]
        good = [i for i, run in enumerate(runs) if run.get("status") == "ok"]
        last = runs[good[-1]] if good else {}
        later = runs[good[-1] + 1 :] if good else runs
        times.append(
            StageTime(
                stage,
                str(last.get("variant", workspace.variant(stage))),
                last.get("seconds"),
                last.get("time"),
                f"{last['cpus']} CPUs, {last['machine']}" if "cpus" in last else "–",
                len(later),
            )
        )
    return times
