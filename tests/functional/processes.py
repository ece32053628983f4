"""Started commands: what they say, how they end, and all that they start themselves.

running = project.start("run")              # `longline run`, in a process of its own
running.until(lambda: project.has("copy"))
running.left()                              -> {pid: command} of everything it has started
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 300.0
"""Seconds after which something that should happen is given up; a busy machine is slow."""
MARK = "TEST_RUN"
"""The environment variable by which everything that a run started is found."""
LONGLINE = (sys.executable, "-m", "pipelines.cli")


# Waits of the product that tests shorten: a stage that ignores SIGTERM is killed sooner, a failed
# one is tried again sooner, and a cancellation is seen sooner.
SHORT = {
    "pipelines.run.stage.GRACE": 1.0,
    "pipelines.flow.tasks.RETRY_DELAY": 0.2,
    "pipelines.flow.stopping.POLL": 0.3,
}


def change(constants: Mapping[str, float]) -> None:
    """Give constants of modules other values."""
    for name, value in constants.items():
        module, _, constant = name.rpartition(".")
        assert hasattr(importlib.import_module(module), constant)
        setattr(importlib.import_module(module), constant, value)


def quick(constants: Mapping[str, float]) -> list[str]:
    """The command `longline` with other values for some constants."""
    lines = (
        "import importlib",
        "from pipelines.cli import main",
        "from collections.abc import Mapping",
    )
    call = f"change({dict(constants)!r})\nmain()"
    return [sys.executable, "-c", "\n".join([*lines, inspect.getsource(change), call])]


_STARTED: list[Running] = []


@dataclass(frozen=True)
class Running:
    """A started command, and what it says."""

    process: subprocess.Popen[bytes] | multiprocessing.process.BaseProcess
    output: Path
    mark: str

    @classmethod
    def now(cls, *values: Any) -> Running:
        """Note it, so that a test that fails in the middle leaves nothing running."""
        running = cls(*values)
        _STARTED.append(running)
        return running

    @property
    def status(self) -> int | None:
        """How it ended, None while it goes on; -9 after SIGKILL."""
        if isinstance(self.process, subprocess.Popen):
            return self.process.poll()
        return self.process.exitcode

    def said(self) -> str:
        if not self.output.exists():
            return ""
        return self.output.read_text(encoding="utf-8", errors="replace")

    def wait(self, status: int | None = 0) -> str:
        """Wait until it ends with this status (None: any); what it said."""
        started = time.monotonic()
        while self.status is None:
            if time.monotonic() - started > PATIENCE:
                self.kill()
                pytest.fail(f"it goes on and on:\n{self.said()}")
            time.sleep(0.02)
        if status is not None and self.status != status:
            pytest.fail(f"status {self.status}, not {status}:\n{self.said()}")
        return self.said()

    def until(self, condition: Callable[[], object]) -> None:
        """Wait for something while this runs."""
        wait_until(condition, lambda: self.status is None, self.said)

    def send(self, number: int) -> None:
        assert self.process.pid is not None
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            os.kill(self.process.pid, number)

    def left(self) -> dict[int, str]:
        """Every living process that this run started, by any detour, with its command."""
        return marked_processes(self.mark)

    def kill(self) -> None:
        """End everything of this run at once."""
        while left := self.left():
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)


def wait_until(
    condition: Callable[[], object],
    going_on: Callable[[], bool] = lambda: True,
    said: Callable[[], str] = str,
) -> None:
    """Wait until a condition holds; fails when it cannot any more."""
    started = time.monotonic()
    while not condition():
        if not going_on() and not condition():
            pytest.fail(f"it ended before that:\n{said()}")
        if time.monotonic() - started > PATIENCE:
            pytest.fail(f"waited in vain:\n{said()}")
        time.sleep(0.02)


def marked_processes(mark: str) -> dict[int, str]:
    """Living processes with this mark in their environment, which children inherit."""
    wanted = f"{MARK}={mark}".encode()
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                environment = Path(f"/proc/{name}/environ").read_bytes()
                state = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()[0]
                if wanted in environment.split(b"\0") and state not in (b"Z", b"X"):
                    command = Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(name)] = command.decode(errors="replace").strip()
    return found


@pytest.fixture(autouse=True)
def nothing_goes_on() -> Iterator[None]:
    """End what a test that failed has left running."""
    yield
    while _STARTED:
        _STARTED.pop().kill()
