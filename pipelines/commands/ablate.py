"""`longline ablate`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from pipelines.commands.run import Overrides
from schemas.errors import UserError


@click.command()
@click.argument("grid", required=False, default="", shell_complete=lambda *_: _grids())
@Overrides
@click.option("--name", default="", help="A name for a grid given by -S.")
@click.option("--metric", "metrics", multiple=True, help="STAGE.key to compare. May be repeated.")
@click.option("--plan", "only_plan", is_flag=True, help="Show the plan and stop.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before running.")
@click.option("--cpus", type=click.IntRange(min=1), help="CPUs to use; default: all.")
@click.option("--gpus", type=click.IntRange(min=0), help="GPUs to use; default: all.")
def ablate(
    grid: str,
    overrides: tuple[str, ...],
    name: str,
    metrics: tuple[str, ...],
    only_plan: bool,
    yes: bool,
    **options: Any,
) -> None:
    """Run a GRID of conf/ablation, or one given by -S, and compare its arms over seeds.

    Shared stages run once. Every cell becomes a DVC experiment; the workspace stays as it is.
    Axes under `seed.` are repetitions.

    \b
    longline ablate reward
    longline ablate -S distractors=random,tiered -S seed.train=0,1,2
    """
    from pipelines.ablate.cell import lock_path, start_commit
    from pipelines.ablate.plan_text import grid_summary
    from pipelines.ablate.planning import check_metrics, new_metrics, plan_grid
    from pipelines.flow.start import run_on_terminal
    from pipelines.run.workspace import refuse_if_held

    root = Path.cwd()

    def choose() -> Any:
        from pipelines.ablate.grid import choose_grid

        return choose_grid(root, grid, overrides, name)

    plan = plan_grid(root, choose())
    chosen = metrics or plan.grid.metrics
    check_metrics(plan, chosen)
    if not only_plan:
        start_commit(root)
        refuse_if_held(root, lock_path(plan.grid.name))
    for line in (*grid_summary(plan), *new_metrics(root, plan, chosen)):
        click.echo(line)
    if only_plan:
        click.echo("next: the same without --plan")
        return
    if plan.executions and not yes and not _confirmed():
        raise SystemExit(1)
    done = run_on_terminal(
        "ablation", lambda: None, grid=grid, overrides=list(overrides), name=name,
        metrics=list(metrics), **options,
    )  # fmt: skip
    folder = root / "reports" / "ablations" / plan.grid.name
    if (folder / "results.csv").exists():
        _show(root, plan, chosen)
        click.echo(f"page: {folder / 'index.html'}")
        click.echo(
            "next: dvc exp show; dvc exp apply NAME brings a cell into the workspace, and "
            "`longline report` writes its report"
        )
    if not done:
        raise SystemExit(1)


def _confirmed() -> bool:
    try:
        return click.confirm("Run it?", default=True)
    except click.Abort as error:
        raise UserError("nobody answered", fix="add -y to run without being asked") from error


def _show(root: Path, plan: Any, metrics: Sequence[str]) -> None:
    from pipelines.ablate.outcome import saved_summary
    from pipelines.ablate.tables import print_summary

    with suppress(UserError):  # no cell has such a metric: the run has said so
        print_summary(saved_summary(root, plan, metrics))


def _grids() -> list[str]:
    return sorted(path.stem for path in (Path("conf") / "ablation").glob("*.yaml"))
