"""How a run learns that it must stop: Ctrl-C, SIGTERM, or a cancellation in Prefect's UI or API."""

from __future__ import annotations

import contextlib
import contextvars
import signal
import threading
from collections.abc import Iterator
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.logging import get_logger

POLL = 2.0
"""Seconds between looks at the state of the flow run."""


@contextlib.contextmanager
def stop_signals(stopping: threading.Event) -> Iterator[None]:
    """The first SIGINT or SIGTERM asks the run to stop; a second one does what it always does.

    Python handles signals in the main thread only; elsewhere nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}

    def stop(number: int, _: object) -> None:
        stopping.set()
        for each in numbers:
            signal.signal(each, before[each])
        get_logger("longline").warning(
            "stopping: the stages that run are being ended (again to give up waiting)"
        )

    for number in numbers:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, before[number])


@contextlib.contextmanager
def stop_when_cancelled(flow_run: UUID | None, stopping: threading.Event) -> Iterator[None]:
    """Ask the run to stop when its flow run is cancelled by somebody else.

    A worker also sends SIGTERM then, but nobody does so for a flow that runs in `longline run`.
    """
    if flow_run is None:
        yield
        return
    ended = threading.Event()

    def watch() -> None:
        with get_client(sync_client=True) as client:
            while not ended.wait(POLL):
                with contextlib.suppress(Exception):  # the server may be away for a while
                    state = client.read_flow_run(flow_run).state
                    if state is not None and (state.is_cancelling() or state.is_cancelled()):
                        stopping.set()
                        return

    # Prefect's settings (which server) are in the context, which threads do not inherit.
    watcher = threading.Thread(target=contextvars.copy_context().run, args=(watch,), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join(timeout=5)
