"""The command `longline`. Every command says what it did and what to do next.

Nothing heavy is imported before a command needs it: `longline --help` answers at once.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from pipelines.commands.ablate import ablate
from pipelines.commands.deploy import deploy
from pipelines.commands.llm import llm
from pipelines.commands.run import plan, run
from pipelines.commands.serve import serve


class Group(click.Group):
    """A command group that prints `UserError` as one message, without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        from schemas.errors import as_user_error

        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            readable = as_user_error(error)
            if readable is None or ctx.find_root().params.get("debug"):
                raise
            click.echo(f"error: {readable}", err=True)
            ctx.exit(1)


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.version_option(package_name="longline", message="longline %(version)s")
def main(debug: bool) -> None:
    """Long-context reward data and RL, as one declarative, versioned pipeline.

    Stages run under DVC. `longline plan` shows what a run would do, `longline run` does it, in
    parallel and in Prefect's UI; `dvc repro` does it stage after stage. The other commands look at
    what was made and compose its parameters.
    """


main.add_command(plan)
main.add_command(run)
main.add_command(ablate)
main.add_command(serve)
main.add_command(deploy)
main.add_command(llm)


@main.command()
@click.argument("query")
@click.option(
    "--format", "form", type=click.Choice(["table", "csv", "json"]), default="table",
    show_default=True, help="Output form.",
)  # fmt: skip
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="Most rows shown as a table.",
)
def sql(query: str, form: str, limit: int) -> None:
    """Query any dataset, and any quarantine, with DuckDB's SQL.

    \b
    longline sql "select split, count(*) from questions group by split"
    longline sql "select rule, count(*) from documents_quarantine group by rule"
    longline sql "show tables"
    """
    import duckdb

    from pipelines.sql import print_rows
    from schemas.catalog import open_catalog
    from schemas.errors import UserError

    with open_catalog(Path("data")) as connection:
        try:
            result: duckdb.DuckDBPyRelation | None = connection.sql(query)
            if result is None:
                click.echo("done; the statement returned no rows", err=True)
            else:
                print_rows(result, form, limit)
        except duckdb.Error as error:
            views = [row[0] for row in connection.execute("SHOW TABLES").fetchall()]
            raise UserError(str(error).strip(), allowed=views) from error


@main.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), default="longline.duckdb")
def catalog(file: Path) -> None:
    """Write a DuckDB FILE of views over the datasets, for any DuckDB client."""
    from schemas.catalog import write_catalog

    names = write_catalog(Path("data"), file)
    click.echo(f"{file}: {len(names)} views")
    click.echo(f"next: duckdb {file} (the views read the Parquet shards; nothing is copied)")


@main.group(cls=Group)
def params() -> None:
    """Compose and check params.yaml, which comes from conf/."""


@params.command("compose")
@click.argument("overrides", nargs=-1)
@click.option("--check", is_flag=True, help="Write nothing; fail if params.yaml is out of date.")
def params_compose(overrides: tuple[str, ...], check: bool) -> None:
    """Compose conf/ (with Hydra OVERRIDES, such as distractors=random) into params.yaml."""
    from pipelines.params import check_params, write_params

    if check:
        if overrides:
            raise click.UsageError(
                "--check compares the default composition; it takes no overrides"
            )
        parameters = check_params()
        click.echo(f"params.yaml is what conf/ composes to (profile {parameters.profile})")
        return
    changed = write_params(overrides)
    click.echo("params.yaml written" if changed else "params.yaml was up to date")
    if overrides:
        click.echo(
            "note: `dvc exp run` composes again without these overrides; for one run use\n"
            f"      dvc exp run {' '.join(f'-S {override}' for override in overrides)}"
        )
    click.echo("next: dvc repro")


@params.command("show")
def params_show() -> None:
    """List the config groups and their choices, for `-S GROUP=CHOICE`."""
    from pipelines.params import groups

    for group, choices in groups().items():
        click.echo(f"{group}: {', '.join(choices)}")
    click.echo("next: dvc exp run -S GROUP=CHOICE (or -S KEY=VALUE for any key of params.yaml)")


@main.command()
@click.argument("stage", required=False, shell_complete=lambda *_: _stage_names())
def variants(stage: str | None) -> None:
    """List the variants of a STAGE, or of all stages."""
    from stages.runtime.layout import STAGES, stage_layout
    from stages.runtime.variant import variants as names

    for name in [stage_layout(stage).name] if stage else STAGES:
        click.echo(f"{name}: {', '.join(names(name))}")
    click.echo("next: dvc exp run -S STAGE=VARIANT; CONTRIBUTING.md shows how to add one")


@main.command()
def report() -> None:
    """Write reports/index.html and the Data Docs from the last run."""
    from pipelines.report.build import write_report

    path = write_report(Path.cwd())
    click.echo(f"report: {path}")
    click.echo("next: open it in a browser; it needs no network and no other file")


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a SHELL."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None  # click ships these three
    click.echo(found(main, {}, "longline", "_LONGLINE_COMPLETE").source())
    click.echo(
        f'# next: add to your shell\'s start-up file: eval "$(longline completion {shell})"',
        err=not sys.stdout.isatty(),
    )


def _stage_names() -> list[str]:
    from stages.runtime.layout import STAGES

    return list(STAGES)


if __name__ == "__main__":
    main()
