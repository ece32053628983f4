"""`longline serve`."""

from __future__ import annotations

import click

from pipelines.commands.run import Overrides, Stages


@click.command()
@Stages
@Overrides
@click.option("--cron", help='When the pipeline runs, such as "0 3 * * *". Default: on request.')
@click.option("--timezone", default="UTC", show_default=True, help="Of --cron.")
@click.option("--paused", is_flag=True, help="Start with the schedule paused.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where the UI listens.")
@click.option("--port", default=4200, show_default=True, help="Port of the UI.")
def serve(
    stages: tuple[str, ...],
    overrides: tuple[str, ...],
    cron: str | None,
    timezone: str,
    paused: bool,
    host: str,
    port: int,
) -> None:
    """Run the pipeline on a schedule and from Prefect's UI, until this command is ended.

    With PREFECT_API_URL set its server is used; otherwise one is started, on loopback.

    \b
    longline serve --cron "0 3 * * *"
    longline serve distractors -S distractors=random
    """
    import os
    from pathlib import Path

    from pipelines.plan import make_plan

    os.environ.setdefault("DO_NOT_TRACK", "1")
    os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    from pipelines.flow.serve import check_schedule, serve_flows, server_for

    if cron:
        check_schedule(cron, timezone)
    make_plan(Path.cwd(), stages, overrides)  # what cannot be planned is not served
    with server_for(host, port, lambda line: click.echo(line, err=True)):
        click.echo("serving the flows `pipeline` and `ablation`; Ctrl-C ends it", err=True)
        serve_flows(cron, timezone, paused, stages, overrides)
