"""`longline plan` and `longline run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schemas.errors import UserError
from stages.runtime.layout import STAGES

if TYPE_CHECKING:
    from pipelines.plan import Plan

Stages = click.argument(
    "stages",
    nargs=-1,
    shell_complete=lambda _context, _param, start: [n for n in STAGES if n.startswith(start)],
)
Overrides = click.option(
    "-S", "--set", "overrides", multiple=True, metavar="KEY=VALUE",
    help="A choice or value for conf/, such as distractors=random. May be repeated.",
)  # fmt: skip
Force = click.option("-f", "--force", is_flag=True, help="Every stage runs, changed or not.")


@click.command()
@Stages
@Overrides
@Force
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def plan(stages: tuple[str, ...], overrides: tuple[str, ...], force: bool, as_json: bool) -> None:
    """Show what a run of STAGES (default: all) would do, and why. Runs and changes nothing.

    \b
    longline plan
    longline plan evaluate -S distractors=random
    """
    import json
    import shlex

    from pipelines.plan import as_json as for_programs
    from pipelines.plan import make_plan
    from pipelines.plan_text import show

    made = make_plan(Path.cwd(), stages, overrides, force)
    if as_json:
        click.echo(json.dumps(for_programs(made), indent=1))
        return
    show(made)
    if made.running:
        words = ["longline", "run", *stages, *(f"-S {shlex.quote(value)}" for value in overrides)]
        click.echo(f"next: {' '.join(words)}{' --force' if force else ''}")
    else:
        click.echo("next: longline report, or -S GROUP=CHOICE to vary it (`longline params show`)")


@click.command()
@Stages
@Overrides
@Force
@click.option("--wait", is_flag=True, help="Wait for another run in this workspace to end.")
@click.option("--report/--no-report", default=True, help="Write reports/index.html at the end.")
@click.option("--cpus", type=click.IntRange(min=1), help="CPUs to use; default: all.")
@click.option("--gpus", type=click.IntRange(min=0), help="GPUs to use; default: all.")
def run(stages: tuple[str, ...], overrides: tuple[str, ...], **options: Any) -> None:
    """Bring STAGES (default: all) up to date as a Prefect flow, in parallel where possible.

    conf/ is composed with the overrides, and params.yaml records what was run. Uses the Prefect
    server that PREFECT_API_URL names, or a temporary one, unless there is nothing to do. Ctrl-C
    stops it; run again to go on.

    \b
    longline run
    longline run distractors -S distractors=random
    """
    from pipelines.dag.outlook import Will
    from pipelines.flow.start import names_server, run_on_terminal
    from pipelines.plan import make_plan
    from pipelines.run.workspace import refuse_if_held

    if not options["wait"]:
        refuse_if_held(Path.cwd())

    def check() -> None:
        made = make_plan(Path.cwd(), stages, overrides, options["force"])
        fresh = all(row.outlook.will is Will.FRESH for row in made.rows)
        # Behind another run that is waited for, nothing is known yet.
        if fresh and not options["wait"] and not names_server():
            raise _NothingToDo(made)

    targets, chosen = list(stages), list(overrides)
    try:
        done = run_on_terminal("pipeline", check, targets=targets, overrides=chosen, **options)
    except _NothingToDo as nothing:
        _leave_as_it_is(nothing.plan, options["report"])
    else:
        if not done:
            raise SystemExit(1)


class _NothingToDo(Exception):
    """Every stage is fresh, and no server is there to be told: none is started for that."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan


def _leave_as_it_is(plan: Plan, report: bool) -> None:
    """As a flow that runs nothing leaves it: params.yaml, and a report where there is none."""
    from pipelines.params import replace_params
    from pipelines.plan_text import summary
    from pipelines.report.build import write_report
    from pipelines.run.workspace import hold_workspace

    root = Path.cwd()
    with hold_workspace(root, "longline run", False, lambda line: click.echo(line, err=True)):
        replace_params(root, plan.params)
        if report and not (root / "reports" / "index.html").exists():
            try:
                click.echo(f"report: {write_report(root)}", err=True)
            except UserError as error:  # a report never fails a run
                click.echo(f"no report: {error}", err=True)
    for line in summary(plan):
        click.echo(line, err=True)
    click.echo(f"completed: {len(plan.rows)} fresh", err=True)
