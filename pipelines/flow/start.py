"""Starting a flow from the command line: against the user's server, or a temporary one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

from schemas.errors import UserError


@contextlib.contextmanager
def prefect_api(say: Callable[[str], None], meanwhile: Callable[[], object]) -> Iterator[None]:
    """Prefect's API for the time of the context, and before it `meanwhile`.

    `PREFECT_API_URL` from the environment or the active profile is used as it is; without one a
    temporary server is started, and boots while this process imports and does `meanwhile`.
    """
    os.environ.setdefault("DO_NOT_TRACK", "1")
    os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    if url := os.environ.get("PREFECT_API_URL"):
        meanwhile()
        check_reachable(url)
        yield
        return
    from pipelines.flow.server import temporary_server

    with temporary_server() as server:
        meanwhile()
        from prefect.settings import (
            PREFECT_API_URL,
            PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
            temporary_settings,
        )

        import pipelines.flow.ablation
        import pipelines.flow.pipeline  # noqa: F401 - slow, so while the server boots

        if url := PREFECT_API_URL.value():  # the active profile names one after all
            check_reachable(url)
            yield
            return
        server.wait_until_ready()
        say(f"watch it at {server.url} (a temporary Prefect server; PREFECT_API_URL names another)")
        # Heartbeats tell a server that lives on of a flow that died; this one dies with it, and
        # their thread takes a second to end.
        beside = {PREFECT_API_URL: f"{server.url}/api", PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}
        with temporary_settings(beside):
            try:
                yield
            finally:
                _send_everything()


def names_server() -> bool:
    """Whether the environment or Prefect's active profile names a server."""
    if os.environ.get("PREFECT_API_URL"):
        return True
    from prefect.settings import PREFECT_API_URL

    return bool(PREFECT_API_URL.value())


def check_reachable(url: str) -> None:
    """Raises `UserError` where no Prefect server answers, before a flow begins."""
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: url}), get_client(sync_client=True) as client:
        problem = client.api_healthcheck()
    if problem is not None:
        raise UserError(
            f"no Prefect server answers at {url}: {problem}",
            fix="start it (`prefect server start`), or unset PREFECT_API_URL for a temporary one",
        )


def _send_everything() -> None:
    """Send the logs and events that Prefect still holds, before the server goes."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    APILogWorker.drain_all(timeout=10, at_exit=False)
    EventsWorker.drain_all(timeout=10, at_exit=False)


def run_on_terminal(flow_name: str, meanwhile: Callable[[], object], **parameters: Any) -> bool:
    """Run a flow in this process and show it on the terminal. Returns whether it completed.

    `meanwhile` is for what can fail early: it is done before the flow is begun.
    """
    import click

    with prefect_api(lambda line: click.echo(line, err=True), meanwhile):
        from pipelines.flow.ablation import ablation
        from pipelines.flow.console import log_to_terminal
        from pipelines.flow.pipeline import pipeline

        log_to_terminal()
        flow: Any = {"pipeline": pipeline, "ablation": ablation}[flow_name]
        state = flow(**parameters, return_state=True)
        click.echo(f"{str(state.name).lower()}: {state.message}", err=True)
        return bool(state.is_completed())
