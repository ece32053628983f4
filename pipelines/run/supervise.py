"""The process between a run and one `dvc repro`: nothing that DVC started outlives it.

    python supervise.py PIPE_FD GRACE spare -- dvc --wait-for-lock repro --single-item NAME

It runs the command in a session of its own, with its own output, and ends as it ends. When the
other end of the pipe closes (the run was cancelled, or has died in any way, SIGKILL included), or
when it gets SIGTERM, it stops the command:

- with `spare` the command's own process is left to end by itself, so that DVC never dies while it
  writes `dvc.lock`; what it started gets SIGTERM, after the grace SIGKILL, and so does all that
  those started; only when the command has not ended a second grace later, it is killed too;
- with `all` the command gets SIGTERM as well.

Processes that were left behind are adopted (PR_SET_CHILD_SUBREAPER) and killed as well, also those
that went into sessions of their own, and also when the command ended well. Uses the standard
library only, since it starts once for every stage. Needs Linux for adopting; elsewhere the
command's process group is signalled.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
POLL = 0.05


def supervise(pipe: int, grace: float, spare: bool, command: list[str]) -> int:
    """Run the command; its exit status, or 128 + SIGTERM where it was stopped."""
    os.set_inheritable(pipe, False)
    libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
    if libc is not None:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _: asked.append(received))

    def tie_to_supervisor() -> None:
        if libc is not None:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)

    child = subprocess.Popen(
        command, start_new_session=True, stdin=subprocess.DEVNULL,
        preexec_fn=tie_to_supervisor,
    )  # fmt: skip
    while child.poll() is None:
        readable = select.select([pipe], [], [], POLL)[0]
        if asked or (readable and os.read(pipe, 1) == b""):
            stop(child, grace, spare)
            sweep(child.pid, grace)
            return 128 + signal.SIGTERM
    sweep(child.pid, grace)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def stop(child: subprocess.Popen[bytes], grace: float, spare: bool) -> None:
    """Stop what the command started, and the command unless it is spared; kill what stays."""
    if not spare:
        child.terminate()
    started = time.monotonic()
    seen: set[int] = set()
    while child.poll() is None:
        waited = time.monotonic() - started
        for pid in descendants(child.pid):
            late = waited > grace
            if late or pid not in seen:
                seen.add(pid)
                send(pid, signal.SIGKILL if late else signal.SIGTERM)
        if waited > (2 * grace if spare else grace):
            child.kill()
        time.sleep(POLL)


def sweep(group: int, grace: float) -> None:
    """End what the command left behind: its group, and all that was adopted from it."""
    for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, grace)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)
        sent: set[int] = set()
        started = time.monotonic()
        while time.monotonic() - started < patience:
            reap()
            left = descendants(os.getpid())
            if not left:
                return
            for pid in left:
                if pid not in sent:
                    sent.add(pid)
                    send(pid, number)
            time.sleep(POLL)


def descendants(root: int) -> list[int]:
    """The living processes under a process, nearest first; none where there is no /proc."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else []:
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                # "pid (command) state parent ...": the command may hold spaces and brackets.
                state, parent = file.read().rpartition(b")")[2].split()[:2]
                if state not in (b"Z", b"X"):
                    children.setdefault(int(parent), []).append(int(name))
    found: list[int] = []
    pending = [root]
    while pending:
        under = children.get(pending.pop(0), [])
        found += under
        pending += under
    return found


def reap() -> None:
    """Collect adopted processes that have ended. Only after the command itself was collected."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


if __name__ == "__main__":
    sys.exit(supervise(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3] == "spare", sys.argv[5:]))
