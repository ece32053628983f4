"""Serving both flows from one process, on a schedule if wanted: for one box, no work pool."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from prefect import serve
from prefect.client.schemas.schedules import CronSchedule
from prefect.schedules import Cron
from prefect.settings import PREFECT_API_URL, temporary_settings
from pydantic import ValidationError

from pipelines.flow.ablation import ablation
from pipelines.flow.pipeline import pipeline
from pipelines.flow.server import is_loopback, temporary_server
from schemas.errors import UserError


def serve_flows(
    cron: str | None,
    timezone: str,
    paused: bool,
    targets: Sequence[str],
    overrides: Sequence[str],
) -> None:
    """Offer `pipeline` and `ablation` for runs until the process is ended.

    Only `pipeline` gets the schedule. Of each, one run at a time; the next ones wait.
    """
    schedule: dict[str, Any] = {}
    if cron:
        schedule = {"schedule": Cron(cron, timezone=timezone), "paused": paused}
    parameters = {"targets": list(targets), "overrides": list(overrides), "wait": True}
    pipeline_deployment: Any = pipeline.to_deployment(
        "pipeline", parameters=parameters, concurrency_limit=1, **schedule
    )
    ablation_deployment: Any = ablation.to_deployment("ablation", concurrency_limit=1)
    serve(pipeline_deployment, ablation_deployment, limit=2)


def check_schedule(cron: str, timezone: str) -> None:
    """Raises `UserError` for a cron expression or a time zone that there is not."""
    try:
        CronSchedule(cron=cron, timezone=timezone)
    except (ValidationError, ValueError) as error:
        raise UserError(
            f"no schedule '{cron}' in time zone '{timezone}'",
            fix='five fields, such as --cron "0 3 * * *", and a zone such as Europe/Berlin',
        ) from error


@contextlib.contextmanager
def server_for(host: str, port: int, say: Callable[[str], None]) -> Iterator[None]:
    """The server that PREFECT_API_URL or the profile names, or one of our own at this address."""
    if PREFECT_API_URL.value():
        say(f"using the Prefect server at {PREFECT_API_URL.value()}")
        yield
        return
    if not is_loopback(host):
        say(f"warning: {host} is open to the network, and Prefect asks nobody for a password")
    with temporary_server(host, port) as server:
        server.wait_until_ready()
        say(f"Prefect's UI: {server.url}")
        # Runs are processes of their own, which read the environment.
        os.environ["PREFECT_API_URL"] = f"{server.url}/api"
        with temporary_settings({PREFECT_API_URL: f"{server.url}/api"}):
            yield
