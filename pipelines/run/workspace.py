"""One run at a time in a workspace: who holds it, and since when.

The lock is the kernel's (flock), so a killed run leaves none behind. The supervisors of its stages
hold it too until all they started has ended, so the next run never meets a half-stopped stage.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from schemas.errors import UserError

LOCK = Path(".longline") / "run.lock"
PATIENCE = 30.0
"""Seconds to wait for a run that has died to finish stopping its stages."""


@contextmanager
def hold_workspace(
    root: Path,
    what: str,
    wait: bool = False,
    say: Callable[[str], None] = print,
    stopping: threading.Event | None = None,
    lock: Path = LOCK,
) -> Iterator[int]:
    """Hold the workspace; yields the lock's file descriptor, for the stages to hold as well.

    Refuses with the holder's name where another run is on, or with `wait` waits until it ends.
    """
    path = root / lock
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _acquire(descriptor, wait, say, stopping)
        entry = {"pid": os.getpid(), "what": what, "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(entry).encode(), 0)
        drop_stale_rwlock(root)
        yield descriptor
    finally:
        os.close(descriptor)


def refuse_if_held(root: Path, lock: Path = LOCK) -> None:
    """Refuse at once where a living run holds the workspace, before anything is started for
    another. Only `hold_workspace` holds it."""
    path = root / lock
    if path.exists():
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            entry = _entry(descriptor)
            if _alive(entry.get("pid")):  # one that has died is about to let go
                raise _refusal(entry) from None
        finally:
            os.close(descriptor)


def _refusal(entry: dict[str, object]) -> UserError:
    return UserError(
        f"this workspace is in use by {_name(entry)}",
        fix="wait until it ends (`longline run --wait` does), or stop it first",
    )


def drop_stale_rwlock(root: Path) -> bool:
    """Remove DVC's list of paths in use if none of the processes in it is a DVC process any more.

    DVC does so by itself only while the process id is free; after a reboot, or in a container, it
    may be another program's, and every run would be refused. Returns whether it was removed.
    """
    path = root / ".dvc" / "tmp" / "rwlock"
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))
        reading = [info for infos in listed.get("read", {}).values() for info in infos]
        holders = [int(info["pid"]) for info in (*reading, *listed.get("write", {}).values())]
    except FileNotFoundError:
        return False
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        holders = []  # cut off by a crash: DVC itself would refuse it for ever
    if any(_runs_dvc(pid) for pid in holders):
        return False
    path.unlink(missing_ok=True)
    return True


def _runs_dvc(pid: int) -> bool:
    """Whether a process is DVC's; where there is no /proc, whether it is alive."""
    if not Path("/proc/self").exists():
        return _alive(pid)
    try:
        return b"dvc" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _acquire(
    descriptor: int, wait: bool, say: Callable[[str], None], stopping: threading.Event | None
) -> None:
    started, said = time.monotonic(), False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            entry = _entry(descriptor)
            died = not _alive(entry.get("pid"))
            if not wait and not (died and time.monotonic() - started < PATIENCE):
                raise _refusal(entry) from None
            if not said:
                said = True
                say(f"waiting for {_name(entry)}" + (", which is being stopped" if died else ""))
            if stopping is not None and stopping.wait(0.2):
                raise UserError("stopped while waiting for the workspace") from None
            time.sleep(0 if stopping is not None else 0.2)


def _entry(descriptor: int) -> dict[str, object]:
    try:
        entry = json.loads(os.pread(descriptor, 4096, 0) or b"{}")
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}


def _name(entry: dict[str, object]) -> str:
    if not entry:
        return "another run"
    return f"`{entry.get('what')}` (process {entry.get('pid')}, since {entry.get('since')})"


def _alive(pid: object) -> bool:
    if not isinstance(pid, int):
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
