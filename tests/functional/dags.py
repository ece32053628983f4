"""Small projects of waiting and copying stages, a Prefect server, and what that server knows.

    project = make_project(path, {"copy": stage("cp src.txt copy.txt", ["src.txt"], ["copy.txt"])})
    project.longline("run")                     # the real command, in a process of its own
    api.newest().tasks["copy"].state            -> "Completed"

Such a project has this project's conf/ and params.yaml, so that every `-S` works, and stages that
take no time, so that a test can run it often.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import multiprocessing
import multiprocessing.process
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PATIENCE = 300.0
"""Seconds after which something that should happen is given up; a busy machine is slow."""
Spec = dict[str, Any]

# Notes when it starts and ends, and on which GPUs. Between them it may wait for others to begin
# (meet), for a time (sleep), or while a file is there (hold), start processes that do not want to
# end (family), fail in its first attempts (fail) or always (die), and print a variable (print).
STAGE = textwrap.dedent(
    """\
    import json, os, subprocess, sys, time
    name, out, *words = sys.argv[1:]
    def note(event):
        entry = {"stage": name, "event": event, "time": time.time(), "pid": os.getpid(),
                 "gpus": os.environ.get("CUDA_VISIBLE_DEVICES")}
        with open(os.environ["NOTES"], "a") as file:
            file.write(json.dumps(entry) + "\\n")
    def noted(event):
        entries = [json.loads(line) for line in open(os.environ["NOTES"])]
        return [entry["stage"] for entry in entries if entry["event"] == event]
    def wait(condition):
        patience = time.monotonic() + 60
        while not condition():
            if time.monotonic() > patience:
                sys.exit(f"{name} waited in vain")
            time.sleep(0.02)
    note("start")
    if name == "grandchild":
        import signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.setsid()
        if out == "orphan" and os.fork():
            os._exit(0)
        note("stays")
        time.sleep(600)
    text = []
    for word in words:
        kind, _, value = word.partition("=")
        if kind == "sleep":
            time.sleep(float(value))
        elif kind == "meet":
            wait(lambda: set(value.split(",")) <= set(noted("start")))
        elif kind == "hold":
            while os.path.exists(value):
                time.sleep(0.02)
        elif kind == "family" and os.path.exists(value):
            for manner in ("orphan", "child"):
                subprocess.Popen([sys.executable, __file__, "grandchild", manner])
            wait(lambda: len(noted("stays")) >= 2)
            note("family")
            time.sleep(600)
        elif kind == "fail":
            if noted("start").count(name) <= int(value):
                sys.exit(f"error: {name} is not ready yet")
        elif kind == "die":
            if os.path.exists(value):
                print("error: there is " + value)
                sys.exit(3)
        elif kind == "print":
            print(f"{value} is {os.environ.get(value)}")
            print(f"{value} is {os.environ.get(value)}", file=sys.stderr)
        elif kind != "family":
            text.append(open(word).read())
    with open(f"{out}.new", "w") as file:
        file.write(name + "\\n" + "".join(text))
    os.replace(f"{out}.new", out)
    note("end")
    """
)


def stage(cmd: str, deps: Sequence[str], outs: Sequence[Any], **more: Any) -> Spec:
    """A stage of dvc.yaml; `more` is params, metrics, plots, meta, desc."""
    return {"cmd": cmd, "deps": [*deps], "outs": [*outs], **more}


def noted(name: str, deps: Sequence[str], *words: str, **more: Any) -> Spec:
    """A stage that makes NAME.txt from its deps with the script above, and takes notes."""
    command = " ".join(["python stage.py", name, f"{name}.txt", *words, *deps])
    return stage(command, ["stage.py", *deps], [f"{name}.txt"], **more)


@dataclass(frozen=True)
class Note:
    """What one stage noted: when it began and ended, and on which GPUs."""

    stage: str
    start: float
    end: float
    gpus: str | None

    def overlaps(self, other: Note) -> bool:
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True)
class Project:
    """A project folder and the environment that its commands run in."""

    path: Path
    environment: dict[str, str] = field(repr=False)

    def run(
        self, *command: str, check: bool = True, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the folder; with `check`, fail the test with its output."""
        done = subprocess.run(
            command, cwd=self.path, env={**self.environment, **environment},
            capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        if check and done.returncode:
            pytest.fail(f"{command} exited with {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def longline(
        self, *arguments: str, check: bool = True, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return self.run(*LONGLINE, *arguments, check=check, **environment)

    def start(
        self, *arguments: str, constants: Mapping[str, float] | None = None, **environment: str
    ) -> Running:
        """Start `longline` and go on. `constants` are waits of the product that a test shortens."""
        mark = uuid.uuid4().hex
        output = self.path.parent / f"{self.path.name}-{mark}.log"
        with output.open("w") as file:
            process = subprocess.Popen(
                [*(quick(constants) if constants else LONGLINE), *arguments],
                cwd=self.path, env={**self.environment, MARK: mark, **environment},
                stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        return Running.now(process, output, mark)

    def notes(self) -> dict[str, Note]:
        """The last run of every stage that ended, from its own notes."""
        begun: dict[str, dict[str, Any]] = {}
        found: dict[str, Note] = {}
        for entry in self.raw_notes():
            if entry["event"] == "start":
                begun[entry["stage"]] = entry
            else:
                start = begun[entry["stage"]]["time"]
                found[entry["stage"]] = Note(
                    entry["stage"], start, entry["time"], entry["gpus"]
                )  # fmt: skip
        return found

    def raw_notes(self) -> list[dict[str, Any]]:
        path = Path(self.environment["NOTES"])
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]

    def forget_notes(self) -> None:
        Path(self.environment["NOTES"]).unlink(missing_ok=True)

    def has(self, name: str, event: str = "start") -> bool:
        """Whether a stage has noted that."""
        return any((entry["stage"], entry["event"]) == (name, event) for entry in self.raw_notes())

    def write(self, name: str, text: str) -> None:
        """Write a file whole, also where DVC has linked it to its cache."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(text, encoding="utf-8")

    def read(self, name: str) -> str:
        return (self.path / name).read_text(encoding="utf-8")

    def stages(self, **changed: Spec) -> None:
        """Add stages to dvc.yaml, or replace them."""
        described = yaml.safe_load(self.read("dvc.yaml"))
        described["stages"] |= changed
        self.write("dvc.yaml", yaml.safe_dump(described, sort_keys=False))

    def status(self) -> dict[str, Any]:
        """What `dvc status` finds changed; empty when all is up to date."""
        return dict(json.loads(self.run("dvc", "status", "--json").stdout))


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


def make_project(
    path: Path, stages: Mapping[str, Spec], files: Mapping[str, str] | None = None
) -> Project:
    """Write and commit a project with these stages; stage.py and src.txt are always there."""
    for name in ("conf", "pipelines/hydra"):
        shutil.copytree(
            ROOT / name, path / name, ignore=shutil.ignore_patterns("__pycache__")
        )  # fmt: skip
    for name in (".dvc/config", ".dvc/.gitignore", ".dvcignore", "params.yaml"):
        (path / name).parent.mkdir(exist_ok=True)
        shutil.copy2(ROOT / name, path / name)
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PREFECT_", "CUDA_", "LONGLINE_")) or name == "PREFECT_API_URL"
    }
    environment |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "DVC_NO_ANALYTICS": "1",
        "DVC_SITE_CACHE_DIR": str(path.parent / f"{path.name}-site-cache"),
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_HOME": str(path.parent / f"{path.name}-prefect"),
        "GIT_AUTHOR_NAME": "Tester", "GIT_AUTHOR_EMAIL": "tester@example.org",
        "GIT_COMMITTER_NAME": "Tester", "GIT_COMMITTER_EMAIL": "tester@example.org",
        "NOTES": str(path.parent / f"{path.name}-notes"),
        "COLUMNS": "200",
    }  # fmt: skip
    project = Project(path, environment)
    project.write("dvc.yaml", yaml.safe_dump({"stages": dict(stages)}, sort_keys=False))
    project.write(".gitignore", "*.txt\n!src*.txt\n/.longline/\n/reports/\n__pycache__/\n")
    for name, text in {"stage.py": STAGE, "src.txt": "source\n", **(files or {})}.items():
        project.write(name, text)
    project.run("git", "init", "-q")
    project.run("git", "add", "-A")
    project.run("git", "commit", "-qm", "project")
    return project


def copy_project(original: Project, path: Path) -> Project:
    """A copy that a test may change, with its cache."""
    shutil.copytree(original.path, path, symlinks=True)
    own = {
        name: value.replace(str(original.path), str(path))
        for name, value in original.environment.items()
        if name in ("DVC_SITE_CACHE_DIR", "PREFECT_HOME", "NOTES")
    }
    return Project(path, {**original.environment, **own})


def outcomes(output: str) -> dict[str, str]:
    """What DVC did with each stage, from what it said: run, cached or fresh."""
    patterns = {
        "run": r"^Running stage '([^']+)'",
        "cached": r"^Stage '([^']+)' is cached - skipping run",
        "fresh": r"^Stage '([^']+)' didn't change, skipping",
    }
    return {
        name: how
        for how, pattern in patterns.items()
        for name in re.findall(pattern, output, re.MULTILINE)
    }


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The API of a `prefect server` on loopback that all tests share."""
    home = tmp_path_factory.mktemp("prefect")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {name: v for name, v in os.environ.items() if not name.startswith("PREFECT_")}
    environment |= {
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1"]
    with (home / "server.log").open("w") as log:
        server = subprocess.Popen(
            [*command, "--port", str(port)], env=environment, cwd=home,
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        wait_until(
            lambda: _answers(f"http://127.0.0.1:{port}/api/health"),
            lambda: server.poll() is None,
            (home / "server.log").read_text,
        )
        yield f"http://127.0.0.1:{port}/api"
    finally:
        _end(server)


@pytest.fixture(scope="session")
def api(prefect_server: str) -> Iterator[Api]:
    """What the shared server knows."""
    from prefect.client.orchestration import SyncPrefectClient

    with SyncPrefectClient(prefect_server) as client:
        yield Api(prefect_server, client)


def _answers(url: str) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
        return bool(answer.status == 200)
    return False


def _end(process: subprocess.Popen[Any]) -> None:
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@dataclass(frozen=True)
class TaskRecord:
    """One task run as the API has it."""

    state: str
    type: str
    message: str
    attempts: int
    upstream: frozenset[str]
    log: str


@dataclass(frozen=True)
class FlowRecord:
    """One flow run as the API has it."""

    id: Any
    state: str
    type: str
    message: str
    parameters: dict[str, Any]
    tasks: dict[str, TaskRecord]
    log: str
    """Of the flow and of its tasks."""
    artifacts: dict[str, Any]
    """By key, with `type`, `data` and `description`."""
    everything: str
    """All of this as the API gave it, to search in."""


@dataclass(frozen=True)
class Api:
    """The tests' own view of the server, through Prefect's client."""

    url: str
    client: Any

    def project(
        self, path: Path, stages: Mapping[str, Spec], files: Mapping[str, str] | None = None
    ) -> Project:
        """A project whose runs are reported to this server."""
        made = make_project(path, stages, files)
        return Project(path, {**made.environment, "PREFECT_API_URL": self.url})

    def newest(self, number: int = 0) -> FlowRecord:
        """The flow run that began last, or one of those before it."""
        from prefect.client.schemas.sorting import FlowRunSort

        runs = self.client.read_flow_runs(sort=FlowRunSort.START_TIME_DESC, limit=number + 1)
        return self._record(runs[number])

    def active(self) -> list[Any]:
        """The ids of flow runs that are running."""
        from prefect.client.schemas.filters import FlowRunFilter

        filter_ = FlowRunFilter(state={"type": {"any_": ["RUNNING"]}})
        return [run.id for run in self.client.read_flow_runs(flow_run_filter=filter_)]

    def cancel(self, flow_run: Any) -> None:
        """As the button in the UI does it."""
        from prefect.states import Cancelling

        self.client.set_flow_run_state(flow_run, Cancelling())

    def _record(self, run: Any) -> FlowRecord:
        from prefect.client.schemas.filters import ArtifactFilter, FlowRunFilter, LogFilter

        only = FlowRunFilter(id={"any_": [run.id]})
        task_runs = self.client.read_task_runs(flow_run_filter=only)
        logs = self.client.read_logs(
            LogFilter(flow_run_id={"any_": [run.id]}), limit=200
        )  # fmt: skip
        artifacts = self.client.read_artifacts(
            artifact_filter=ArtifactFilter(flow_run_id={"any_": [run.id]})
        )
        names = {task.id: task.name for task in task_runs}
        tasks = {
            task.name: TaskRecord(
                state=task.state.name,
                type=task.state.type.value,
                message=task.state.message or "",
                attempts=task.run_count,
                upstream=frozenset(
                    names[needed.id] for needs in task.task_inputs.values() for needed in needs
                ),
                log=_lines(log for log in logs if log.task_run_id == task.id),
            )
            for task in task_runs
        }
        found = (run, *task_runs, *logs, *artifacts)
        return FlowRecord(
            id=run.id,
            state=run.state.name,
            type=run.state.type.value,
            message=run.state.message or "",
            parameters=run.parameters,
            tasks=tasks,
            log=_lines(logs),
            artifacts={artifact.key: artifact for artifact in artifacts},
            everything="\n".join(one.model_dump_json() for one in found),
        )


def _lines(logs: Any) -> str:
    ordered = sorted(logs, key=lambda log: log.timestamp)
    return "\n".join(log.message for log in ordered)


# What `longline run` and `dvc` import; a fork that finds it imported starts two seconds sooner.
_IMPORTED = (
    "pipelines.cli", "pipelines.dag.project", "pipelines.flow.pipeline", "pipelines.flow.start",
    "pipelines.flow.console", "pipelines.plan", "pipelines.plan_text", "hydra",
    "dvc.analytics", "dvc.cachemgr", "dvc.cli.parser", "dvc.data_cloud", "dvc.dirs", "dvc.lock",
    "dvc.repo.artifacts", "dvc.repo.datasets", "dvc.repo.graph", "dvc.repo.index",
    "dvc.repo.metrics", "dvc.repo.open_repo", "dvc.repo.params", "dvc.repo.plots",
    "dvc.repo.reproduce", "dvc.repo.stage", "dvc.rwlock", "dvc.scm", "dvc.stage.cache",
    "dvc.utils.strictyaml", "dvc_data.hashfile.build", "dvc_data.hashfile.db.local", "networkx",
    "pyparsing", "ruamel.yaml", "scmrepo.git",
)  # fmt: skip


class Forks:
    """Starts `longline` and `dvc` in forks of one process that has imported them already.

    Everything else is as in a process of its own. For tests that start them often.
    """

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([__name__, *_IMPORTED])

    def start(
        self,
        project: Project,
        program: str,
        *arguments: str,
        constants: Mapping[str, float] | None = None,
        **environment: str,
    ) -> Running:
        mark = uuid.uuid4().hex
        output = project.path.parent / f"{project.path.name}-{mark}.log"
        whole = {**project.environment, MARK: mark, **environment}
        process = self._context.Process(
            target=_as_program,
            args=(str(project.path), whole, output, program, arguments, dict(constants or {})),
        )
        process.start()
        return Running.now(process, output, mark)

    def run(self, project: Project, program: str, *arguments: str) -> Running:
        """Start it and wait until it has ended, with whatever status."""
        running = self.start(project, program, *arguments)
        running.wait(None)
        return running


def _as_program(
    folder: str,
    environment: dict[str, str],
    output: Path,
    program: str,
    arguments: Sequence[str],
    constants: Mapping[str, float],
) -> None:
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for descriptor in (1, 2):
        os.dup2(file, descriptor)
    os.close(file)
    sys.argv = [program, *arguments]
    if program == "dvc":
        from dvc.cli import main as dvc

        sys.exit(dvc(list(arguments)))
    from prefect.context import refresh_global_settings_context

    from pipelines.cli import main as longline

    refresh_global_settings_context()  # of this environment
    change(constants)
    longline(list(arguments))


@pytest.fixture(autouse=True)
def nothing_goes_on() -> Iterator[None]:
    """End what a test that failed has left running."""
    yield
    while _STARTED:
        _STARTED.pop().kill()


@pytest.fixture(scope="session")
def forks() -> Forks:
    return Forks()
