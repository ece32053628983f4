"""The door `python -m stages NAME`, as DVC opens it: a real process in a real folder."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas.read import Dataset
from stages.runtime import runlog

VARIANT = """
import hashlib
from typing import Literal

from schemas.errors import UserError
from schemas.ids import content_id
from stages.runtime.variant import StageConfig


class Config(StageConfig):
    kind: Literal["my_project.filler"]
    rows: int


def run(config, context):
    if config.rows == 13:
        raise UserError("13 rows", fix="take 12")
    if config.rows == 14:
        raise ZeroDivisionError("a defect")
    if config.rows == 15:
        raise KeyboardInterrupt
    writer = context.writer("rubrics")
    for number in range(config.rows):
        noise = hashlib.shake_256(str(number).encode()).hexdigest(1000)
        writer.add({
            "question_id": content_id(number), "position": 0, "kind": "entity", "target": "Paris",
            "criterion": noise, "weight": 1.0, "evidence_chunk_ids": [],
        })
    context.finish("rubrics", rows_in=config.rows)
    return {"rows": config.rows}
"""
Door = Callable[..., subprocess.CompletedProcess[str]]


def set_params(folder: Path, **stages: Any) -> None:
    file = folder / "params.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | stages))


def add_variant(folder: Path, rows: int) -> None:
    (folder / "my_project").mkdir(exist_ok=True)
    (folder / "my_project" / "filler.py").write_text(VARIANT)
    set_params(folder, rubrics={"kind": "my_project.filler", "rows": rows})


def door(folder: Path, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stages", *arguments],
        cwd=folder, capture_output=True, text=True, timeout=120, **options,
    )  # fmt: skip


def test_a_variant_of_the_users_own(workspace: Path) -> None:
    add_variant(workspace, rows=3)
    done = door(workspace, "rubrics")
    assert done.returncode == 0, done.stderr
    assert Dataset.open(workspace / "data/rubrics").row_count == 3
    (entry,) = runlog.read(workspace / runlog.RUN_LOG)
    assert (entry["stage"], entry["variant"]) == ("rubrics", "my_project.filler")
    assert (entry["status"], entry["rows"]) == ("ok", {"rubrics": 3})
    # A wrong key in it is told as for our own variants.
    set_params(workspace, rubrics={"kind": "my_project.filler", "row": 3})
    wrong = door(workspace, "rubrics")
    assert wrong.returncode == 1
    assert wrong.stderr.startswith("error: unknown parameter 'rubrics.row'\n  allowed: kind, rows")


def test_a_users_error_has_no_traceback_and_a_defect_has_one(workspace: Path) -> None:
    add_variant(workspace, rows=13)
    user = door(workspace, "rubrics")
    assert user.returncode == 1
    assert "error: 13 rows\n  fix: take 12\n" in user.stderr
    assert "Traceback" not in user.stderr
    debug = door(workspace, "rubrics", "--debug")
    assert debug.returncode == 1
    assert "Traceback" in debug.stderr
    add_variant(workspace, rows=14)
    defect = door(workspace, "rubrics")
    assert defect.returncode == 1
    assert "ZeroDivisionError: a defect" in defect.stderr
    assert [e["status"] for e in runlog.read(workspace / runlog.RUN_LOG)] == ["failed"] * 3
    assert not (workspace / "data").exists()


def test_an_interrupted_stage_has_no_traceback(workspace: Path) -> None:
    add_variant(workspace, rows=15)
    done = door(workspace, "rubrics")
    assert done.returncode == 130
    assert done.stderr == "error: interrupted\n  fix: dvc repro (it goes on from here)\n"
    assert not list((workspace / ".work").iterdir())


def test_the_guard_stops_when_conf_has_changed(workspace: Path) -> None:
    done = door(workspace, "params")
    assert done.returncode == 0, done.stderr
    report = (workspace / "reports/params.json").read_bytes()
    with (workspace / "conf/judge/panel.yaml").open("a") as file:
        file.write("# a comment\n")
    stopped = door(workspace, "params")
    assert stopped.returncode == 1
    assert "conf/ has changed since params.yaml was composed" in stopped.stderr
    assert "fix: longline params compose && dvc repro" in stopped.stderr
    assert (workspace / "reports/params.json").read_bytes() == report
    assert [path.name for path in (workspace / "reports").iterdir()] == ["params.json"]


def test_the_guard_names_a_corpus_path_that_is_not_there(workspace: Path) -> None:
    (workspace / "inputs").rmdir()
    stopped = door(workspace, "params")
    assert stopped.returncode == 1
    assert "corpus.path: no file or folder 'inputs'\n  fix: mkdir -p inputs and" in stopped.stderr


@pytest.mark.parametrize("arguments", [(), ("rubrics", "judge"), ("rubric",)])
def test_wrong_arguments_name_the_stages(workspace: Path, arguments: tuple[str, ...]) -> None:
    done = door(workspace, *arguments)
    assert done.returncode == 1
    assert "allowed: candidates, corpus, distractors" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file system of its own with 12 MB."""
    folder = tmp_path_factory.mktemp("disk")
    command = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, timeout=10).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("no right to mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def assert_full(folder: Path, before: bytes, done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 1
    assert "error: the disk is full: " in done.stderr
    assert "fix: free space" in done.stderr
    assert "Traceback" not in done.stderr
    assert (folder / "data/rubrics/part-00000.parquet").read_bytes() == before
    assert Dataset.open(folder / "data/rubrics").row_count == 3
    assert list((folder / ".work").iterdir()) == []


@pytest.mark.parametrize("rows", [4800, 20_000], ids=["while cutting shards", "while collecting"])
def test_a_full_disk(workspace: Path, small_disk: Path, rows: int) -> None:
    folder = small_disk / "project"
    shutil.copytree(workspace, folder)
    add_variant(folder, rows=3)
    assert door(folder, "rubrics").returncode == 0
    before = (folder / "data/rubrics/part-00000.parquet").read_bytes()
    add_variant(folder, rows=rows)
    assert_full(folder, before, door(folder, "rubrics"))
    # With less to write, the same command goes through.
    add_variant(folder, rows=4)
    assert door(folder, "rubrics").returncode == 0


def test_a_limit_on_file_size(workspace: Path) -> None:
    add_variant(workspace, rows=3)
    assert door(workspace, "rubrics").returncode == 0
    before = (workspace / "data/rubrics/part-00000.parquet").read_bytes()
    add_variant(workspace, rows=20_000)
    limit = (4_000_000, 4_000_000)
    done = door(
        workspace, "rubrics", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    )
    assert_full(workspace, before, done)
