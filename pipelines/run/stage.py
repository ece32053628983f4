"""Running one stage: `dvc --wait-for-lock repro --single-item NAME`, supervised.

    done = run_stage(Path.cwd(), "warmup", on_line=print, stopping=event, timeout=3600)
    done.how                    -> "ran" | "fresh" | "restored"

DVC is the only cache, and writes `dvc.lock`; this only starts it, reads what it says, tries again
where DVC gives up on a lock that is about to be free, and stops it when asked.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.dag.start_dvc import DVC

GRACE = 10.0
"""Seconds between asking a stage to stop and killing it."""
LOCK_PATIENCE = 300.0
"""Seconds to go on asking for paths that another DVC process holds."""

_RAN = "Running stage '"
_FRESH = "didn't change, skipping"
_RESTORED = "is cached - skipping run, checking out outputs"
_BUSY = "is busy, it is being blocked by"
_LOCKED = "Unable to acquire lock"
_CHATTER = (
    "To track the changes with git, run:",
    "\tgit add ",
    "To enable auto staging, run:",
    "\tdvc config core.autostage true",
    "Use `dvc push` to send",
    "Data and pipelines are up to date.",
    "Updating lock file 'dvc.lock'",
    "Generating lock file 'dvc.lock'",
)
"""What DVC says after every single stage; it would fill the log."""


class StageFailed(Exception):
    """A stage's command failed; `tail` is the end of what it said."""

    def __init__(self, stage: str, status: int, tail: Sequence[str]) -> None:
        self.stage, self.status, self.tail = stage, status, tuple(tail)
        super().__init__(f"{stage} failed with status {status}: {self.cause()}")

    def cause(self) -> str:
        """The line that says why, as the stage's door or DVC prints it."""
        for marker in ("error: ", "ERROR: "):
            for line in reversed(self.tail):
                if line.startswith(marker) and "failed to reproduce" not in line:
                    return line.removeprefix(marker)
        return self.tail[-1].strip() if self.tail else "it said nothing"


class StageTimeout(StageFailed):
    """A stage took longer than its `meta.timeout`."""

    def __init__(self, stage: str, seconds: float, tail: Sequence[str]) -> None:
        self.seconds = seconds
        super().__init__(stage, 124, tail)

    def cause(self) -> str:
        return (
            f"it took longer than its timeout of {self.seconds:g} s and was stopped; raise "
            f"meta.timeout of stage {self.stage} in dvc.yaml"
        )


class StageStopped(Exception):
    """The run was cancelled while the stage ran, or before it began."""


@dataclass(frozen=True)
class StageDone:
    """How a stage ended well."""

    stage: str
    how: str
    """`ran`, `fresh` or `restored`, as DVC said."""
    seconds: float


def run_stage(
    root: Path,
    stage: str,
    on_line: Callable[[str], None],
    stopping: threading.Event,
    timeout: float | None = None,
    environment: Mapping[str, str] | None = None,
    force: bool = False,
    held: Sequence[int] = (),
) -> StageDone:
    """Bring one stage up to date, whose upstream is. Raises `StageFailed` or `StageStopped`.

    `held` are file descriptors (of locks) that stay open until everything of the stage has ended,
    also when this process dies.
    """
    command = [*DVC, "--wait-for-lock", "repro", "--single-item", stage]
    if force:
        command.append("--force")
    started = time.monotonic()
    status, tail, how = _supervised(
        command, root, stage, on_line, stopping, timeout, environment, held
    )
    while status and any(_BUSY in line for line in tail) and how != "ran":
        # rwlock blockers raise at once, whatever --wait-for-lock says.
        if time.monotonic() - started > LOCK_PATIENCE:
            break
        on_line(f"{stage}: its paths are in use by another DVC process; trying again")
        if stopping.wait(1.0):
            raise StageStopped(stage)
        status, tail, how = _supervised(
            command, root, stage, on_line, stopping, timeout, environment, held
        )
    if status and how == "ran" and any(_LOCKED in line or _BUSY in line for line in tail):
        # The command succeeded, and DVC gave up on its lock when it came to record that.
        status, more, _ = _supervised(
            [*DVC, "--wait-for-lock", "commit", "--force", stage],
            root, stage, on_line, stopping, timeout, environment, held,
        )  # fmt: skip
        tail = [*tail, *more]
    if status:
        raise StageFailed(stage, status, tail)
    return StageDone(stage, how or "ran", time.monotonic() - started)


def restore_stages(
    root: Path,
    stages: Sequence[str],
    on_line: Callable[[str], None],
    stopping: threading.Event,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Bring stages whose results are in the cache up to date, upstream first, in one process."""
    command = [*DVC, "--wait-for-lock", "repro", "--single-item", *stages]
    run_command(root, command, ", ".join(stages), on_line, stopping, environment)


def run_command(
    root: Path,
    command: Sequence[str],
    what: str,
    on_line: Callable[[str], None],
    stopping: threading.Event,
    environment: Mapping[str, str] | None = None,
) -> list[str]:
    """Run any command as stages are run; its last lines. Raises `StageFailed` or `StageStopped`."""
    status, tail, _ = _supervised(command, root, what, on_line, stopping, None, environment, ())
    if status:
        raise StageFailed(what, status, tail)
    return tail


def _own_programs() -> dict[str, str]:
    """This environment's `dvc` and `python` come first, whether or not it was activated."""
    own = str(Path(sys.executable).parent)
    return {"PATH": os.pathsep.join([own, os.environ.get("PATH", os.defpath)])}


def _supervised(
    command: Sequence[str],
    root: Path,
    stage: str,
    on_line: Callable[[str], None],
    stopping: threading.Event,
    timeout: float | None,
    environment: Mapping[str, str] | None,
    held: Sequence[int],
) -> tuple[int, list[str], str]:
    """(exit status, last lines, how it went) of one supervised command."""
    if stopping.is_set():
        raise StageStopped(stage)
    alive, notify = os.pipe()
    supervisor = str(Path(__file__).with_name("supervise.py"))
    process = subprocess.Popen(
        [sys.executable, "-S", "-E", supervisor, str(alive), str(GRACE), "spare", "--", *command],
        cwd=root,
        env={**os.environ, **_own_programs(), "PYTHONUNBUFFERED": "1", **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=(alive, *held),
        text=True,
        errors="replace",
        start_new_session=True,
    )
    os.close(alive)
    tail: deque[str] = deque(maxlen=200)
    how = ""
    timed_out = threading.Event()
    ended = threading.Event()

    def watch() -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        while not ended.wait(0.1):
            late = deadline is not None and time.monotonic() > deadline
            if late or stopping.is_set():
                if late:
                    timed_out.set()
                break
        with contextlib.suppress(OSError):
            os.close(notify)  # the supervisor stops the command when this end closes

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    assert process.stdout is not None
    try:
        for line in process.stdout:
            text = line.rstrip("\n")
            if text.startswith(_RAN):
                how = "ran"
            elif _FRESH in text:
                how = how or "fresh"
            elif _RESTORED in text:
                how = how or "restored"
            if text.strip():
                tail.append(text)
                if not text.startswith(_CHATTER):
                    on_line(text)
        status = process.wait()
    finally:
        ended.set()
        watcher.join()
        process.stdout.close()
    if timed_out.is_set():
        raise StageTimeout(stage, timeout or 0.0, list(tail))
    if stopping.is_set() and status:
        raise StageStopped(stage)
    return status, list(tail), how
