"""One stage as one Prefect task, whose state says what happened: ran, fresh, restored, skipped.

Results are not persisted and Prefect caches nothing: DVC is the only cache.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prefect import Task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, StateType
from prefect.context import TaskRunContext
from prefect.futures import PrefectFuture, PrefectTaskRunFuture
from prefect.logging import get_run_logger
from prefect.states import Completed, Failed

from pipelines.dag.outlook import Will
from pipelines.flow.artifacts import show_metrics
from pipelines.plan import PlanRow
from pipelines.run.resources import Pool
from pipelines.run.secrets import masked
from pipelines.run.stage import StageFailed, StageStopped, run_stage

RETRY_DELAY = 5.0


@dataclass
class Run:
    """What the tasks of one flow run share."""

    root: Path
    pool: Pool
    stopping: threading.Event
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to the environment of the stages: the secrets of Prefect's blocks."""
    held: Sequence[int] = ()
    force: bool = False
    outcomes: dict[str, str] = field(default_factory=dict)
    """By stage: ran, fresh, restored, failed, skipped or cancelled."""
    causes: dict[str, str] = field(default_factory=dict)
    finished: Callable[[], None] = lambda: None
    """Called after every stage."""


GOOD = frozenset({"ran", "fresh", "restored"})


def submit_stage(
    run: Run, row: PlanRow, upstream: Sequence[PrefectFuture[Any]], priority: float
) -> PrefectFuture[Any]:
    """Submit the task of one stage. `upstream` only orders it, and draws the edges in the UI."""

    def again(*_: Any) -> bool:
        return not run.stopping.is_set()

    def bring_up_to_date() -> State[Any]:
        return stage_state(run, row, priority)

    task: Task[..., Any] = Task(
        fn=bring_up_to_date,
        name=row.node.name,
        task_run_name=row.node.name,
        description=row.node.description,
        cache_policy=NO_CACHE,
        persist_result=False,
        retries=row.node.retries,
        retry_delay_seconds=RETRY_DELAY,
        retry_condition_fn=again,
    )
    return task.submit(wait_for=[Ended(future) for future in upstream])


class Ended(PrefectTaskRunFuture[Any]):
    """An upstream future to wait for whichever way it ends.

    Prefect starts no task after one that was skipped or cancelled, and would leave it without a
    word; here each stage judges its upstream by itself, and says so in its state.
    """

    def __init__(self, future: PrefectFuture[Any]) -> None:
        super().__init__(future.task_run_id)
        self._future = future

    def wait(self, timeout: float | None = None) -> None:
        self._future.wait(timeout)
        if self._future.state.is_final():
            self._final_state = Completed(data="ended")  # without data Prefect looks for a result

    def result(self, timeout: float | None = None, raise_on_failure: bool = True) -> None:
        self.wait(timeout)

    def add_done_callback(self, fn: Callable[[PrefectFuture[Any]], None]) -> None:
        self._future.add_done_callback(fn)


def stage_state(run: Run, row: PlanRow, priority: float) -> State[Any]:
    """Bring one stage up to date; the final state of its task. Raises only to be tried again."""
    name = row.node.name
    try:
        outcome, state = _settle(run, row, priority)
    except StageFailed as error:
        cause = masked(os.environ, run.environment.values())(error.cause())
        if _attempts_left(row.node.retries) and not run.stopping.is_set():
            raise RuntimeError(f"{cause} (it is tried again)") from None
        run.causes[name] = cause
        outcome, state = "failed", Failed(message=cause)
    except StageStopped:
        outcome = "cancelled"
        state = State(type=StateType.CANCELLED, name="Cancelled", message="the run was stopped")
    run.outcomes[name] = outcome
    run.finished()
    return state


def _settle(run: Run, row: PlanRow, priority: float) -> tuple[str, State[Any]]:
    node = row.node
    before = {name: run.outcomes[name] for name in node.upstream if name in run.outcomes}
    broken = sorted(name for name, outcome in before.items() if outcome not in GOOD)
    if broken:
        reason = ", ".join(f"{name} {_did(before[name])}" for name in broken)
        run.causes[node.name] = reason
        state: State[Any] = State(
            type=StateType.CANCELLED, name="Skipped", message=f"not run: {reason}"
        )
        return "skipped", state
    if run.stopping.is_set():
        raise StageStopped(node.name)
    unmoved = all(outcome == "fresh" for outcome in before.values())
    if row.outlook.will is Will.FRESH and unmoved and not run.force:
        return "fresh", Completed(name="Fresh", message="nothing changed")
    environment = {**run.environment, "LONGLINE_IDENTITY": row.outlook.identity}
    mask = masked(os.environ, run.environment.values())
    logger = get_run_logger()
    with run.pool.take(node.resources, priority, run.stopping) as gpus:
        if gpus:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
        done = run_stage(
            run.root,
            node.name,
            on_line=lambda line: logger.info("%s", mask(line)),
            stopping=run.stopping,
            timeout=node.timeout,
            environment=environment,
            force=run.force,
            held=run.held,
        )
    if done.how != "fresh":
        show_metrics(run.root, node)
    name = {"ran": "Completed", "fresh": "Fresh", "restored": "Restored"}[done.how]
    message = {
        "ran": f"ran in {done.seconds:.1f} s",
        "fresh": "nothing changed",
        "restored": "result of an earlier run restored from DVC's cache",
    }[done.how]
    return done.how, Completed(name=name, message=message)


def _did(outcome: str) -> str:
    return {"failed": "failed", "skipped": "was skipped", "cancelled": "was stopped"}[outcome]


def _attempts_left(retries: int) -> bool:
    context = TaskRunContext.get()
    return context is not None and context.task_run.run_count <= retries
