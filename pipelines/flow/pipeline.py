"""The pipeline as a Prefect flow: plan, then one task a stage, in parallel where the graph allows.

    pipeline(overrides=["distractors=random"])          # in this process
    prefect deploy --name pipeline                      # see prefect.yaml

The flow composes `conf/` with the overrides, writes `params.yaml` if it differs, and leaves
everything else to `dvc repro --single-item`. It ends as Completed, Failed (with the command that
resumes) or Cancelled.
"""

from __future__ import annotations

import shlex
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from prefect import flow, get_run_logger
from prefect.blocks.system import Secret
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.futures import PrefectFuture
from prefect.states import Cancelled, Completed, Failed
from prefect.task_runners import ThreadPoolTaskRunner
from pydantic import Field

from pipelines.flow.artifacts import set_progress, show_plan, show_report, start_progress
from pipelines.flow.stopping import stop_signals, stop_when_cancelled
from pipelines.flow.tasks import GOOD, Run, submit_stage
from pipelines.params import groups, replace_params
from pipelines.plan import Plan, make_plan
from pipelines.plan_text import summary
from pipelines.run.resources import Pool
from pipelines.run.stage import StageFailed, StageStopped, run_command
from pipelines.run.workspace import hold_workspace
from schemas.errors import UserError

MOST_STAGES = 64
"""Stages that may wait at once; a waiting stage costs a thread."""
_PROFILES = groups().get("profile", []) if Path("conf").is_dir() else []

Profile = Annotated[
    str | None,
    Field(json_schema_extra={"enum": [None, *_PROFILES]} if _PROFILES else None),
]


@flow(
    name="pipeline",
    task_runner=ThreadPoolTaskRunner(max_workers=MOST_STAGES),  # type: ignore[arg-type]
    persist_result=False,
)
def pipeline(
    targets: list[str] = [],  # noqa: B006 - Prefect reads the defaults into its form
    overrides: list[str] = [],  # noqa: B006
    profile: Profile = None,
    force: bool = False,
    wait: bool = False,
    report: bool = True,
    cpus: Annotated[int | None, Field(ge=1)] = None,
    gpus: Annotated[int | None, Field(ge=0)] = None,
    secrets: dict[str, str] = {},  # noqa: B006
) -> State[Any]:
    """Bring the targets up to date, and all they need.

    Args:
        targets: Stages to bring up to date with all they need; none means all.
        overrides: Choices and values for conf/, such as distractors=random.
        profile: A profile of conf/profile; none means the default.
        force: Run every stage, changed or not.
        wait: Wait for another run in this workspace, instead of being refused.
        report: Write reports/index.html at the end.
        cpus: CPUs to use; none means all.
        gpus: GPUs to use; none means all.
        secrets: Environment variables for the stages, each with the Secret block that holds it.
    """
    root = Path.cwd()
    chosen = [*overrides, *([f"profile={profile}"] if profile else [])]
    stopping = threading.Event()
    logger = get_run_logger()
    try:
        with (
            stop_signals(stopping),
            stop_when_cancelled(flow_run_id(), stopping),
            hold_workspace(root, _command(targets, chosen), wait, logger.info, stopping) as lock,
        ):
            plan = make_plan(root, targets, chosen, force)
            run = Run(
                root=root,
                pool=Pool.of_this_machine(cpus, gpus),
                stopping=stopping,
                environment=_secrets(secrets),
                held=(lock,),
                force=force,
            )
            for row in plan.running:
                run.pool.check(row.node.name, row.node.resources)
            if replace_params(root, plan.params):
                logger.info("params.yaml written: conf/ with %s", chosen or "its defaults")
            for line in summary(plan):
                logger.info(line)
            show_plan(plan)
            run_stages(run, plan)
            return _conclude(run, plan, report)
    except UserError as error:
        return Failed(message=str(error))


def run_stages(run: Run, plan: Plan) -> None:
    """Submit every stage and wait; `run.outcomes` then has one entry for each."""
    progress = start_progress()

    def count() -> None:
        set_progress(progress, len(run.outcomes), len(plan.rows))

    if progress is not None and plan.running:
        run.finished = count
    left = work_left(plan)
    futures: dict[str, PrefectFuture[Any]] = {}
    for row in plan.rows:
        upstream = [futures[name] for name in row.node.upstream if name in futures]
        futures[row.node.name] = submit_stage(run, row, upstream, left[row.node.name])
    for future in futures.values():
        future.wait()
    for name in futures:  # a task that Prefect itself broke
        run.outcomes.setdefault(name, "failed")
    if progress is not None:
        set_progress(progress, len(run.outcomes), len(plan.rows))


def work_left(plan: Plan) -> dict[str, float]:
    """Predicted seconds from the start of a stage to the end of the longest chain after it."""
    left: dict[str, float] = {}
    for row in reversed(plan.rows):
        after = [
            left[other.node.name]
            for other in plan.rows
            if row.node.name in other.node.upstream and other.node.name in left
        ]
        left[row.node.name] = (row.prediction.seconds or 1.0) + max(after, default=0.0)
    return left


def resume_command(plan: Plan) -> str:
    """The command that goes on where a run stopped: what succeeded is fresh."""
    return _command(plan.targets, plan.overrides)


def _conclude(run: Run, plan: Plan, report: bool) -> State[Any]:
    logger = get_run_logger()
    counts = {kind: list(run.outcomes.values()).count(kind) for kind in sorted(GOOD)}
    told = ", ".join(f"{number} {kind}" for kind, number in counts.items() if number)
    for name, outcome in run.outcomes.items():
        if outcome == "failed":
            logger.error("%s failed: %s", name, run.causes.get(name, "see its log"))
    for name, outcome in run.outcomes.items():
        if outcome in ("skipped", "cancelled"):
            logger.warning("%s %s: %s", name, outcome, run.causes.get(name, "the run was stopped"))
    resume = resume_command(plan)
    if run.stopping.is_set():
        logger.warning("stopped (%s); resume with: %s", told or "nothing ran", resume)
        return Cancelled(message=f"stopped; resume with: {resume}")
    bad = sorted(name for name, outcome in run.outcomes.items() if outcome == "failed")
    if bad:
        logger.error("after mending it, resume with: %s", resume)
        return Failed(message=f"{', '.join(bad)} failed; resume with: {resume}")
    if report:
        _report(run, changed=counts["fresh"] < len(run.outcomes))
    logger.info("done: %s", told)
    return Completed(message=told)


def _report(run: Run, changed: bool) -> None:
    """Write the report where something changed, and link it. A report never fails a run."""
    logger = get_run_logger()
    index = run.root / "reports" / "index.html"
    if changed or not index.exists():
        try:
            run_command(
                run.root, [sys.executable, "-m", "pipelines.cli", "report"], "report",
                lambda line: logger.info("%s", line), run.stopping,
            )  # fmt: skip
        except (StageFailed, StageStopped) as error:
            logger.warning("no report: %s; `longline report` shows why", error)
            return
    else:
        logger.info("report: %s", index)
    show_report(index, "the report of this run")


def _secrets(blocks: Mapping[str, str]) -> dict[str, str]:
    """Values of Prefect's Secret blocks, by the environment variable that stages read."""
    values = {}
    for name, block in blocks.items():
        try:
            values[name] = str(Secret.load(block).get())  # type: ignore[union-attr]
        except ValueError as error:
            raise UserError(
                f"no Secret block '{block}' for {name}", fix="create it in Prefect's UI (Blocks)"
            ) from error
    return values


def flow_run_id() -> Any:
    context = FlowRunContext.get()
    return context.flow_run.id if context is not None and context.flow_run is not None else None


def _command(targets: Sequence[str], overrides: Sequence[str]) -> str:
    words = ["longline", "run", *targets]
    for override in overrides:
        words += ["-S", override]
    return shlex.join(words)
