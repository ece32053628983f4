"""A Prefect server on loopback, and what it knows.

api.newest().tasks["copy"].state            -> "Completed"
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.functional.dags import Project, Spec, make_project
from tests.functional.forks import Forks
from tests.functional.processes import wait_until


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

    def task_runs(self, run: Any) -> list[Any]:
        """The task runs of a flow run, once the server has the states that it was told: it notes
        them a moment later."""
        from prefect.client.schemas.filters import FlowRunFilter

        only = FlowRunFilter(id={"any_": [run.id]})
        found: list[Any] = []

        def noted() -> bool:
            found[:] = self.client.read_task_runs(flow_run_filter=only)
            return all(
                task.state and (task.state.is_final() or not run.state.is_completed())
                for task in found
            )

        wait_until(noted, said=lambda: str(found))
        return found

    def _record(self, run: Any) -> FlowRecord:
        from prefect.client.schemas.filters import ArtifactFilter, LogFilter

        task_runs = self.task_runs(run)
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


@dataclass(frozen=True)
class Ran:
    """A run that has ended: what was on the terminal, and what the API has."""

    output: str
    record: FlowRecord


def run(
    project: Project, api: Api, *arguments: str, status: int = 0, report: bool = False, **more: Any
) -> Ran:
    """`longline run`, in a fork with its imports done."""
    command = ["run", *arguments, *([] if report else ["--no-report"])]
    output = Forks().start(project, "longline", *command, **more).wait(status)
    return Ran(output, api.newest())


def states(record: FlowRecord) -> dict[str, str]:
    return {name: task.state for name, task in record.tasks.items()}
