"""The script with which a pod begins, run here in place of a pod: a workspace, then Prefect."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.deploy.kubernetes import job_template
from tests.unit.pipelines.deploy.conftest import git, kubernetes


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder for PATH with a `dvc` that only notes what it was asked."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "dvc").write_text('#!/bin/sh\necho "$PWD $*" >>"$NOTES"\n')
    (folder / "dvc").chmod(0o755)
    return folder


def start(tmp_path: Path, repository: Path, programs: Path, run: str, revision: str = "") -> str:
    """Do what a pod of this flow run does; what the command that Prefect gave has printed."""
    spec = job_template(kubernetes())["job_configuration"]["job_manifest"]["spec"]
    command = spec["template"]["spec"]["containers"][0]["command"]
    show = 'echo "$LONGLINE_WORKSPACE|$PWD|$(cat file)|$1"'
    done = subprocess.run(
        [*command, "sh", "-c", show, "sh", "it's one  word"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
        env={
            "PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path),
            "NOTES": str(tmp_path / "notes"), "PREFECT__FLOW_RUN_ID": run,
            "LONGLINE_STORAGE": str(tmp_path / "storage"), "LONGLINE_REVISION": revision,
            "LONGLINE_REPOSITORY": str(repository),
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_each_flow_run_has_a_workspace(tmp_path: Path, repository: Path, programs: Path) -> None:
    for run in ("a", "b"):
        workspace = tmp_path / "storage" / "workspaces" / run
        said = start(tmp_path, repository, programs, run)
        assert said == f"{workspace}|{workspace}|two|it's one  word"
    assert start(tmp_path, repository, programs, "c", revision="one").split("|")[2] == "one"
    noted = (tmp_path / "notes").read_text().splitlines()
    cache = tmp_path / "storage" / "dvc-cache"
    assert [line.split(" ", 1)[1] for line in noted] == [f"cache dir --local {cache}"] * 3


def test_a_run_that_is_started_again_goes_on(
    tmp_path: Path, repository: Path, programs: Path
) -> None:
    start(tmp_path, repository, programs, "a")
    workspace = tmp_path / "storage" / "workspaces" / "a"
    (workspace / "half").write_text("done so far")
    held = workspace / ".dvc" / "tmp" / "rwlock"
    held.parent.mkdir()
    held.write_text('{"write": {"data": {"pid": 1, "cmd": "dvc repro"}}}')
    start(tmp_path, repository, programs, "a")
    assert (workspace / "half").read_text() == "done so far"
    assert not held.exists()  # process 1 of another pod


def test_locks_of_a_run_that_is_on_are_left(
    tmp_path: Path, repository: Path, programs: Path
) -> None:
    start(tmp_path, repository, programs, "a")
    workspace = tmp_path / "storage" / "workspaces" / "a"
    held = workspace / ".dvc" / "tmp" / "rwlock"
    held.parent.mkdir()
    held.write_text("{}")
    with (workspace / ".longline" / "run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        start(tmp_path, repository, programs, "a")
    assert held.exists()


def test_half_a_clone_is_thrown_away(tmp_path: Path, repository: Path, programs: Path) -> None:
    half = tmp_path / "storage" / "workspaces" / "a.new"
    half.mkdir(parents=True)
    (half / "junk").touch()
    assert start(tmp_path, repository, programs, "a").split("|")[2] == "two"
    assert [path.name for path in half.parent.iterdir()] == ["a"]


def test_dvc_itself_finds_the_shared_cache(tmp_path: Path, repository: Path) -> None:
    start(tmp_path, repository, Path(sys.executable).parent, "a")
    workspace = tmp_path / "storage" / "workspaces" / "a"
    asked = subprocess.run(
        [str(Path(sys.executable).parent / "dvc"), "cache", "dir"],
        cwd=workspace, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert asked.stdout.strip() == str(tmp_path / "storage" / "dvc-cache")
    assert git(workspace, "status", "--short") == "?? .longline/"
