"""A Prefect server for the time of one command, where the user has named none.

Prefect would start one itself, but only when a flow begins and without its UI. Started first, it
boots beside the planning; it listens on loopback, keeps its runs in Prefect's own database (so
that `prefect server start` shows them later), and dies with this process in whatever way that dies.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from schemas.errors import UserError

PATIENCE = 60.0
_HERE = frozenset({"0.0.0.0", "::", "localhost"})  # noqa: S104 - compared with, not bound to
SUPERVISOR = Path(__file__).parents[1] / "run" / "supervise.py"


@dataclass(frozen=True)
class Server:
    """Where a server listens; `process` is None for one that somebody else runs."""

    url: str
    """Without `/api`; the UI is here."""
    process: subprocess.Popen[bytes] | None

    def wait_until_ready(self) -> None:
        """Return when the API answers. Raises `UserError` if it does not come up."""
        started = time.monotonic()
        while self.process is not None:
            try:
                with urllib.request.urlopen(f"{self.url}/api/health", timeout=5):  # noqa: S310
                    return
            except OSError:
                ended = self.process.poll() is not None
                if ended or time.monotonic() - started > PATIENCE:
                    raise UserError(
                        "Prefect's temporary server did not come up",
                        fix="`prefect server start` shows why; or set PREFECT_API_URL",
                    ) from None
                time.sleep(0.05)


@contextlib.contextmanager
def temporary_server(host: str = "127.0.0.1", port: int | None = None) -> Iterator[Server]:
    """A server, ended with the context; it still boots when yielded. Default: a free loopback port.

    Raises `UserError` where the port is taken.
    """
    port = free_port() if port is None else _checked(host, port)
    url = f"http://{'127.0.0.1' if host in _HERE else host}:{port}"
    alive, notify = os.pipe()
    environment = {
        **os.environ,
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_API_HOST": host,
        "PREFECT_SERVER_API_PORT": str(port),
        "PREFECT_UI_API_URL": f"{url}/api",
        "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
        "DO_NOT_TRACK": "1",
    }
    process = subprocess.Popen(
        [
            sys.executable, "-S", "-E", str(SUPERVISOR), str(alive), "1", "all", "--",
            sys.executable, "-m", "uvicorn", "--factory", "prefect.server.api.server:create_app",
            "--host", host, "--port", str(port), "--log-level", "critical",
        ],
        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, pass_fds=(alive,), start_new_session=True,
    )  # fmt: skip
    os.close(alive)
    try:
        yield Server(url, process)
    finally:
        os.close(notify)
        process.wait()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _checked(host: str, port: int) -> int:
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except (OSError, OverflowError) as error:
        raise UserError(
            f"cannot listen on {host}:{port}: {error}",
            fix="another --port, or PREFECT_API_URL of the server that is there",
        ) from error
    return port


def free_port() -> int:
    """A loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
