"""Deployments on a real server: a worker, schedules, cancelling, retrying; and `longline serve`."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.functional.dags import ROOT, Project, noted
from tests.functional.prefect_api import Api
from tests.functional.processes import marked_processes, wait_until

MARK = "deployments"
STAGES = {
    "first": noted("first", ["src.txt"], params=["distractors.seed"]),
    "second": noted("second", ["first.txt"], "hold=wait.flag", "die=bad.flag"),
}


@pytest.fixture(scope="module")
def project(api: Api, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with this code and its deployments."""
    made = api.project(tmp_path_factory.mktemp("deployed") / "project", STAGES)
    leave = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "pipelines", made.path / "pipelines", ignore=leave, dirs_exist_ok=True)
    shutil.copy2(ROOT / "prefect.yaml", made.path)
    return Project(made.path, {**made.environment, "TEST_RUN": MARK, "PWD": "/nowhere"})


@pytest.fixture(scope="module")
def worker(project: Project) -> Iterator[None]:
    """A worker that runs what is deployed."""
    prefect = (sys.executable, "-m", "prefect", "--no-prompt")
    project.run(*prefect, "work-pool", "create", "longline", "--type", "process")
    project.run(*prefect, "deploy", "--all")
    command = [*prefect, "worker", "start", "--pool", "longline"]
    with (project.path.parent / "worker.log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=project.path.parent, env=project.environment, stdout=log, stderr=log
        )
    yield
    process.send_signal(signal.SIGINT)
    process.wait(60)


def deployment(api: Api, name: str = "pipeline/pipeline") -> Any:
    return api.client.read_deployment_by_name(name)


def start(api: Api, **parameters: Any) -> Any:
    """Trigger the deployment as the UI does; the id of the flow run."""
    run = api.client.create_flow_run_from_deployment(
        deployment(api).id, parameters={"report": False, **parameters}
    )
    return run.id


def state(api: Api, run: Any) -> str:
    return str(api.client.read_flow_run(run).state.name)


def ends(api: Api, run: Any) -> str:
    """Wait until a run is over; the name of its state."""
    wait_until(lambda: api.client.read_flow_run(run).state.is_final(), said=lambda: state(api, run))
    return state(api, run)


@pytest.mark.usefixtures("worker")
class TestDeployment:
    def test_the_parameters_are_typed(self, api: Api) -> None:
        schema = deployment(api).parameter_openapi_schema["properties"]
        assert {schema[key]["type"] for key in ("targets", "overrides")} == {"array"}
        assert schema["force"]["type"] == "boolean"
        assert {None, "tiny", "smoke"} <= set(schema["profile"]["enum"])
        assert all(schema[key]["description"] for key in schema)
        with pytest.raises(Exception, match="force"):
            start(api, force="certainly")

    def test_a_run_with_an_override(self, api: Api, project: Project) -> None:
        run = start(api, overrides=["distractors.seed=5"])
        assert ends(api, run) == "Completed"
        assert "seed: 5" in project.read("params.yaml")
        tasks = api.task_runs(api.client.read_flow_run(run))
        names = {task.name: task.state.name for task in tasks}
        assert names == {"first": "Completed", "second": "Completed"}

    def test_schedules_pause_and_resume(self, api: Api) -> None:
        found = deployment(api)
        schedule = found.schedules[0]
        assert not schedule.active
        for active in (True, False):
            api.client.update_deployment_schedule(found.id, schedule.id, active=active)
            assert deployment(api).schedules[0].active is active

    def test_cancelled_by_the_api(self, api: Api, project: Project) -> None:
        project.write("wait.flag", "")
        project.forget_notes()
        run = start(api, force=True)
        wait_until(lambda: project.has("second"), said=lambda: state(api, run))
        api.cancel(run)
        assert ends(api, run) == "Cancelled"
        wait_until(lambda: not [c for c in marked_processes(MARK).values() if "stage.py" in c])
        (project.path / "wait.flag").unlink()

    def test_a_failed_run_is_retried(self, api: Api, project: Project) -> None:
        from prefect.states import AwaitingRetry

        project.write("bad.flag", "")
        run = start(api, force=True)
        assert ends(api, run) == "Failed"
        # A worker reports a process that ended badly as crashed, unless its run is over: a retry
        # before that would be undone.
        log = project.path.parent / "worker.log"
        exited = f"Process for flow run '{api.client.read_flow_run(run).name}' exited"
        wait_until(lambda: exited in log.read_text())
        time.sleep(2)
        (project.path / "bad.flag").unlink()
        api.client.set_flow_run_state(run, AwaitingRetry(), force=True)
        wait_until(lambda: state(api, run) == "Completed", said=lambda: state(api, run))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_serve(tmp_path: Path, api: Api) -> None:
    """It serves with its schedule, on loopback, and leaves nothing behind."""
    from prefect.client.orchestration import SyncPrefectClient

    made = api.project(tmp_path / "project", STAGES)
    environment = {k: v for k, v in made.environment.items() if k != "PREFECT_API_URL"}
    project = Project(made.path, environment)
    port = free_port()
    serving = project.start("serve", "--cron", "0 3 * * *", "--port", str(port))
    serving.until(lambda: "polling for scheduled runs" in serving.said())
    with SyncPrefectClient(f"http://127.0.0.1:{port}/api") as client:
        found = client.read_deployment_by_name("pipeline/pipeline")
    assert found.schedules[0].schedule.cron == "0 3 * * *"
    assert found.schedules[0].active
    listening = Path("/proc/net/tcp").read_text()
    assert f"0100007F:{port:04X}" in listening
    assert f"00000000:{port:04X}" not in listening
    serving.send(signal.SIGINT)
    serving.wait(None)
    wait_until(lambda: not serving.left())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--cron", "now and then"], "no schedule 'now and then'"),
        (["--cron", "0 3 * * *", "--timezone", "Mars/Base"], "time zone 'Mars/Base'"),
        (["nosuch"], "no stage 'nosuch'"),
    ],
)
def test_what_cannot_be_served(tmp_path: Path, api: Api, arguments: list[str], told: str) -> None:
    done = api.project(tmp_path / "project", STAGES).longline("serve", *arguments, check=False)
    assert done.returncode == 1
    assert told in done.stderr
    assert "fix:" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken(tmp_path: Path, api: Api) -> None:
    made = api.project(tmp_path / "project", STAGES)
    environment = {k: v for k, v in made.environment.items() if k != "PREFECT_API_URL"}
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = Project(made.path, environment).longline("serve", "--port", port, check=False)
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr
