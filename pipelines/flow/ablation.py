"""An ablation as a Prefect flow: one task for each execution that the cells share, one a cell.

    ablation(grid="reward")                                       # conf/ablation/reward.yaml
    ablation(overrides=["distractors=random,tiered", "seed.train=0,1,2"])

Every unique (stage, identity) runs once, in the workspace of the first cell that needs it; DVC's
run-cache brings the result to the others, and to executions that turn out to have equal inputs. A
cell whose stages are all there becomes a DVC experiment. A failed cell stops nothing but itself,
and running again goes on where it stopped.
"""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import yaml
from prefect import Task, flow, get_run_logger
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, StateType
from prefect.futures import PrefectFuture
from prefect.states import Cancelled, Completed, Failed
from prefect.task_runners import ThreadPoolTaskRunner
from pydantic import Field

from pipelines.ablate.cell import (
    lock_path,
    make_workspace,
    remove_workspaces,
    save_experiment,
    saved_commit,
    start_commit,
    workspace_path,
)
from pipelines.ablate.grid import choose_grid
from pipelines.ablate.outcome import Outcome, write_outcome
from pipelines.ablate.plan_text import grid_summary
from pipelines.ablate.planning import CellPlan, Execution, GridPlan, check_metrics, plan_grid
from pipelines.ablate.sharing import Turns, contents, note_contents
from pipelines.dag.nodes import Resources, ancestors
from pipelines.flow.artifacts import set_progress, show_markdown, show_report, start_progress
from pipelines.flow.pipeline import flow_run_id
from pipelines.flow.stopping import stop_signals, stop_when_cancelled
from pipelines.flow.tasks import GOOD, Ended
from pipelines.run.resources import Pool
from pipelines.run.secrets import masked
from pipelines.run.stage import StageFailed, StageStopped, restore_stages, run_stage
from pipelines.run.workspace import hold_workspace
from schemas.errors import UserError
from stages.runtime import runlog

MOST_TASKS = 64
"""Tasks that may wait at once. They are submitted upstream first, so more only wait longer."""


@dataclass
class Workspace:
    """Where the executions of one cell run; made when the first of them starts."""

    path: Path
    lock: threading.Lock = field(default_factory=threading.Lock)
    present: set[str] = field(default_factory=set)
    """Stages whose outputs are there."""
    made: bool = False


@dataclass
class AblationRun:
    """What the tasks of one ablation share."""

    root: Path
    plan: GridPlan
    pool: Pool
    stopping: threading.Event
    held: Sequence[int]
    workspaces: dict[str, Workspace]
    turns: Turns = field(default_factory=Turns)
    executions: dict[tuple[str, str], str] = field(default_factory=dict)
    """How each execution ended: ran, restored, fresh, failed, skipped or cancelled."""
    cells: dict[str, Outcome] = field(default_factory=dict)
    causes: dict[tuple[str, str], str] = field(default_factory=dict)
    progress: Any = None

    def count(self) -> None:
        if self.progress is not None:
            done = len(self.executions) + len(self.cells)
            set_progress(self.progress, done, len(self.plan.executions) + len(self.plan.cells))


@flow(
    name="ablation",
    task_runner=ThreadPoolTaskRunner(max_workers=MOST_TASKS),  # type: ignore[arg-type]
    persist_result=False,
)
def ablation(
    grid: str = "",
    overrides: list[str] = [],  # noqa: B006 - Prefect reads the defaults into its form
    name: str = "",
    metrics: list[str] = [],  # noqa: B006
    cpus: Annotated[int | None, Field(ge=1)] = None,
    gpus: Annotated[int | None, Field(ge=0)] = None,
) -> State[Any]:
    """Run a grid of variations, each stage and identity once, and compare them.

    Args:
        grid: A grid of conf/ablation; empty means one of overrides alone.
        overrides: Axes, such as seed.train=0,1,2, and fixed choices, such as profile=smoke.
        name: A name for a grid of overrides alone.
        metrics: STAGE.key to compare; none means those of the grid.
        cpus: CPUs to use; none means all.
        gpus: GPUs to use; none means all.
    """
    root = Path.cwd()
    stopping = threading.Event()
    logger = get_run_logger()
    try:
        chosen = choose_grid(root, grid, overrides, name)
        with (
            stop_signals(stopping),
            stop_when_cancelled(flow_run_id(), stopping),
            hold_workspace(
                root, f"longline ablate {chosen.name}", False, logger.info, stopping,
                lock=lock_path(chosen.name),
            ) as lock,
        ):  # fmt: skip
            plan = plan_grid(root, chosen)
            start_commit(root)
            check_metrics(plan, metrics or chosen.metrics)
            for line in grid_summary(plan):
                logger.info(line)
            show_markdown("ablation-plan", "\n".join(f"- {line}" for line in grid_summary(plan)))
            run = AblationRun(
                root=root,
                plan=plan,
                pool=Pool.of_this_machine(cpus, gpus),
                stopping=stopping,
                held=(lock,),
                workspaces={
                    cell.cell.name: Workspace(workspace_path(root, chosen.name, cell.cell.name))
                    for cell in plan.cells
                },
            )
            for execution in plan.executions:
                run.pool.check(execution.stage, execution.row.node.resources)
            run_grid(run)
            command = _command(grid, overrides, name, metrics)
            return _conclude(run, metrics or list(chosen.metrics), command)
    except UserError as error:
        return Failed(message=str(error))


def run_grid(run: AblationRun) -> None:
    """Submit every execution and every cell, and wait for all of them."""
    run.progress = start_progress()
    futures: dict[tuple[str, str], PrefectFuture[Any]] = {}
    for execution in run.plan.executions:
        futures[execution.key] = _submit(
            f"{execution.stage} ({_cells(run.plan, execution)})",
            lambda execution=execution: _execute(run, execution),
            [futures[key] for key in execution.upstream],
        )
    last = []
    for cell in run.plan.cells:
        keys = [(row.node.name, row.outlook.identity) for row in cell.plan.running]
        last.append(
            _submit(
                f"cell {cell.cell.name}",
                lambda cell=cell: _keep(run, cell),
                [futures[key] for key in keys],
            )
        )
    for future in (*futures.values(), *last):
        future.wait()


def _submit(name: str, do: Any, upstream: Sequence[PrefectFuture[Any]]) -> PrefectFuture[Any]:
    def work() -> State[Any]:
        state: State[Any] = do()
        return state

    task: Task[..., Any] = Task(
        fn=work, name=name.split(" ")[0], task_run_name=name, cache_policy=NO_CACHE,
        persist_result=False,
    )  # fmt: skip
    return task.submit(wait_for=[Ended(future) for future in upstream])


def _execute(run: AblationRun, execution: Execution) -> State[Any]:
    """Run one stage in its owner's workspace, once what it needs is there."""
    try:
        outcome, state = _settle(run, execution)
    except (StageFailed, UserError) as error:
        cause = error.cause() if isinstance(error, StageFailed) else str(error)
        run.causes[execution.key] = masked(os.environ)(cause)
        outcome, state = "failed", Failed(message=run.causes[execution.key])
    except StageStopped:
        outcome = "cancelled"
        state = State(type=StateType.CANCELLED, name="Cancelled", message="the run was stopped")
    run.executions[execution.key] = outcome
    run.count()
    return state


def _settle(run: AblationRun, execution: Execution) -> tuple[str, State[Any]]:
    broken = [key for key in execution.upstream if run.executions.get(key) not in GOOD]
    if broken:
        run.causes[execution.key] = f"{broken[0][0]} {run.executions.get(broken[0], 'broke')}"
        message = f"not run: {run.causes[execution.key]}"
        return "skipped", State(type=StateType.CANCELLED, name="Skipped", message=message)
    logger, mask = get_run_logger(), masked(os.environ)
    node = execution.row.node

    def say(line: str) -> None:
        logger.info("%s", mask(line))

    with run.pool.take(Resources(cpus=1), 0.0, run.stopping):
        place = _ready(run, execution.owner, execution.stage, say)
    key = contents(place.path, execution)
    with (
        run.turns.take(key, run.stopping),
        run.pool.take(node.resources, 0.0, run.stopping) as gpus,
    ):
        environment = {
            "LONGLINE_IDENTITY": execution.identity,
            "LONGLINE_RUN_LOG": str(run.root / runlog.RUN_LOG),
            "LONGLINE_LLM_STORE": str(run.root / _store(run, execution.owner)),
        }
        if gpus:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
        done = run_stage(
            place.path, execution.stage, say, run.stopping, node.timeout, environment,
            held=run.held,
        )  # fmt: skip
        place.present.add(execution.stage)
        note_contents(run.root, execution, key)
    return done.how, Completed(
        name="Completed" if done.how == "ran" else done.how.capitalize(),
        message=f"{done.how} in {done.seconds:.1f} s, for {len(execution.needed_by)} cells",
    )


def _store(run: AblationRun, owner: str) -> str:
    """Where the cell keeps the answers of models: all cells keep them in the project's store."""
    plan = next(cell.plan for cell in run.plan.cells if cell.cell.name == owner)
    configured = yaml.safe_load(plan.params)["runtime"]["llm"]["store"]
    return os.environ.get("LONGLINE_LLM_STORE") or str(configured)


def _ready(run: AblationRun, owner: str, stage: str, say: Any) -> Workspace:
    """The owner's workspace with the outputs of all that the stage needs."""
    place = run.workspaces[owner]
    plan = next(cell.plan for cell in run.plan.cells if cell.cell.name == owner)
    nodes = {row.node.name: row.node for row in plan.rows}
    with place.lock:
        if not place.made:
            make_workspace(run.root, place.path, plan.params, nodes)
            place.made = True
        needed = ancestors(nodes, stage)
        missing = [name for name in nodes if name in needed and name not in place.present]
        if missing:
            restore_stages(place.path, missing, say, run.stopping)
            place.present |= set(missing)
    return place


def _keep(run: AblationRun, cell: CellPlan) -> State[Any]:
    """Save a cell whose stages are all there as an experiment."""
    name = cell.cell.name
    logger, mask = get_run_logger(), masked(os.environ)
    keys = [(row.node.name, row.outlook.identity) for row in cell.plan.running]
    broken = [key for key in keys if run.executions.get(key) not in GOOD]
    state: State[Any]
    try:
        if broken:
            failed = [key for key in broken if run.executions.get(key) == "failed"]
            key = (failed or broken)[0]
            cause = f"{key[0]}: {run.causes.get(key, run.executions.get(key, 'not run'))}"
            status = "failed" if failed else "not run"
            run.cells[name] = Outcome(status, error=cause)
            kind = StateType.FAILED if failed else StateType.CANCELLED
            state = State(type=kind, name="Failed" if failed else "Skipped", message=cause)
        elif commit := saved_commit(run.root, name, cell.identity):
            run.cells[name] = Outcome("done", commit)
            state = Completed(name="Fresh", message=f"experiment {name} is up to date")
        else:
            place = _ready(run, name, cell.plan.rows[-1].node.name, logger.info)
            commit = save_experiment(
                run.root, place.path, name, cell.identity,
                lambda line: logger.info("%s", mask(line)), run.stopping,
            )  # fmt: skip
            run.cells[name] = Outcome("done", commit)
            state = Completed(message=f"experiment {name}")
    except (StageFailed, UserError) as error:
        run.cells[name] = Outcome("failed", error=mask(str(error)))
        state = Failed(message=run.cells[name].error)
    except StageStopped:
        run.cells[name] = Outcome("not run", error="the run was stopped")
        state = State(type=StateType.CANCELLED, name="Cancelled", message="the run was stopped")
    run.count()
    return state


def _conclude(run: AblationRun, metrics: Sequence[str], command: str) -> State[Any]:
    logger = get_run_logger()
    grid = run.plan.grid
    for cell in run.plan.cells:
        run.cells.setdefault(cell.cell.name, Outcome("failed", error="see its log"))
    done = [name for name, outcome in run.cells.items() if outcome.status == "done"]
    remove_workspaces(run.root, grid.name, done)
    for name, outcome in run.cells.items():
        if outcome.status == "failed":
            logger.error("%s failed: %s", name, outcome.error)
    counts = {how: list(run.executions.values()).count(how) for how in ("ran", "restored", "fresh")}
    told = f"{len(done)} of {len(run.cells)} cells done; executions: " + (
        ", ".join(f"{number} {how}" for how, number in counts.items() if number) or "none"
    )
    problem = ""
    if done:
        try:
            page = write_outcome(run.root, run.plan, run.cells, metrics, command)
            show_report(page, f"ablation {grid.name}")
            show_markdown(f"ablation-{grid.name}", page.with_name("results.md").read_text("utf-8"))
            logger.info("results: %s", page)
        except UserError as error:  # a metric that no cell has; nothing else is lost by it
            problem = f"; no results: {error}"
    if run.stopping.is_set():
        return Cancelled(message=f"stopped ({told}); resume with: {command}{problem}")
    if len(done) < len(run.cells):
        return Failed(message=f"{told}; after mending it, resume with: {command}{problem}")
    if problem:
        return Failed(message=f"{told}, and saved{problem}")
    return Completed(message=told)


def _cells(plan: GridPlan, execution: Execution) -> str:
    """The owner, without the grid's name, and how many more cells need it."""
    others = len(execution.needed_by) - 1
    owner = execution.owner.removeprefix(f"{plan.grid.name}-")
    return owner + (f" +{others}" if others else "")


def _command(grid: str, overrides: Sequence[str], name: str, metrics: Sequence[str]) -> str:
    words = ["longline", "ablate", *([grid] if grid else [])]
    for override in overrides:
        words += ["-S", override]
    words += ["--name", name] if name else []
    for metric in metrics:
        words += ["--metric", metric]
    return shlex.join(words)
