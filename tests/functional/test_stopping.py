"""`longline run` stopped, late, or not alone: nothing of it is left behind."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import yaml

from tests.functional.dags import noted, stage
from tests.functional.forks import Forks
from tests.functional.prefect_api import Api, run, states
from tests.functional.processes import SHORT

# family starts a child and an orphan that go into sessions of their own and ignore SIGTERM.
STOPPED = {
    "family": noted("family", ["src.txt"], "family=src-hold.txt", meta={"retries": 2}),
    "held": noted("held", ["src.txt"], "hold=src-hold.txt"),
    "done": noted("done", ["src.txt"]),
    "after": noted("after", ["family.txt", "done.txt"]),
}
FOUR = ("--cpus", "4")


@pytest.mark.parametrize("how", ["SIGINT", "SIGTERM", "API"])
def test_cancel(api: Api, tmp_path: Path, how: str) -> None:
    project = api.project(tmp_path / "project", STOPPED, {"src-hold.txt": ""})
    others = set(api.active())  # a flow that another test killed stays "running" for the server
    running = project.start("run", *FOUR, "--no-report", constants=SHORT)
    running.until(lambda: project.has("family", "family") and project.has("held"))
    running.until(lambda: project.has("done", "end"))
    running.until(lambda: not any("--single-item done" in one for one in running.left().values()))
    assert len(running.left()) >= 8  # the flow; supervisor, DVC and stage, twice; two that stay
    if how == "API":
        (flow_run,) = set(api.active()) - others
        api.cancel(flow_run)
    else:
        running.send(getattr(signal, how))
    said = running.wait(1)
    assert running.left() == {}
    assert project.status().keys() == {"family", "held", "after"}  # DVC's locks are free, at once

    record = api.newest()
    assert (record.state, record.type) == ("Cancelled", "CANCELLED")
    assert states(record) == {
        "family": "Cancelled", "held": "Cancelled", "done": "Completed", "after": "Skipped",
    }  # fmt: skip
    assert {task.attempts for task in record.tasks.values()} == {1}  # it was not tried again
    assert record.tasks["after"].message == "not run: family was stopped"
    assert "resume with: longline run" in record.message
    assert "stopped (1 ran); resume with: longline run" in said
    assert "Traceback" not in said

    (project.path / "src-hold.txt").unlink()
    again = run(project, api)
    assert states(again.record) == {
        "family": "Completed", "held": "Completed", "done": "Fresh", "after": "Completed",
    }  # fmt: skip
    assert project.status() == {}


def test_timeout(api: Api, tmp_path: Path) -> None:
    project = api.project(
        tmp_path / "project",
        {
            "family": noted("family", ["src.txt"], "family=src-hold.txt", meta={"timeout": 8}),
            "child": noted("child", ["family.txt"]),
            "sibling": noted("sibling", ["src.txt"], meta={"timeout": 60}),
        },
        {"src-hold.txt": ""},
    )
    running = Forks().start(project, "longline", "run", *FOUR, "--no-report", constants=SHORT)
    running.until(lambda: project.has("family", "family"))
    running.wait(1)
    assert running.left() == {}
    record = api.newest()
    assert states(record) == {"family": "Failed", "child": "Skipped", "sibling": "Completed"}
    assert "longer than its timeout of 8 s and was stopped" in record.tasks["family"].message
    assert record.state == "Failed"
    assert project.status().keys() == {"family", "child"}


def test_what_a_stage_leaves_behind_is_ended(api: Api, tmp_path: Path) -> None:
    """A stage that ends well, and has started a server that it forgot."""
    leaving = "python stage.py grandchild orphan & sleep 0.5; cp src.txt left.txt"
    project = api.project(
        tmp_path / "project", {"leaving": stage(leaving, ["src.txt"], ["left.txt"])}
    )
    running = Forks().start(project, "longline", "run", "--no-report", constants=SHORT)
    running.until(lambda: project.has("grandchild", "stays"))
    running.wait()
    assert running.left() == {}
    assert states(api.newest()) == {"leaving": "Completed"}


def test_two_runs_at_once(api: Api, tmp_path: Path) -> None:
    project = api.project(
        tmp_path / "project",
        {"held": noted("held", ["src.txt"], "hold=src-hold.txt")},
        {"src-hold.txt": ""},
    )
    start = Forks().start
    seven = ("-S", "distractors.seed=7", "--no-report")
    one = start(project, "longline", "run", *seven)
    one.until(lambda: project.has("held"))
    refused = start(project, "longline", "run", "--no-report").wait(1)
    holder = f"`longline run -S distractors.seed=7` (process {one.process.pid}, since "
    assert f"this workspace is in use by {holder}" in refused
    assert "fix: wait until it ends (`longline run --wait` does), or stop it first" in refused
    params = yaml.safe_load(project.read("params.yaml"))
    assert params["distractors"]["seed"] == 7  # the second has not put its own there

    other = start(project, "longline", "run", "--wait", *seven)
    other.until(lambda: f"waiting for {holder}" in other.said())
    (project.path / "src-hold.txt").unlink()
    assert "completed: 1 ran" in one.wait()
    assert "completed: 1 fresh" in other.wait()
    assert [entry["event"] for entry in project.raw_notes()] == ["start", "end"]
