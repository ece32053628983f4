"""What a stage may read and write, and that only whole work is published."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from schemas import publish as publish_module
from schemas.ids import content_id
from stages.runtime.context import StageContext
from tests.unit.stages.corpus.conftest import PARAMS
from tests.unit.stages.harness import put, question


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rubric(target: str) -> dict[str, Any]:
    return {
        "question_id": content_id(target), "position": 0, "kind": "entity", "criterion": "named",
        "target": target, "weight": 1.0, "evidence_chunk_ids": [],
    }  # fmt: skip


def run_rubrics(target: str, metrics: dict[str, Any]) -> None:
    context = StageContext.create("rubrics", PARAMS)
    try:
        context.writer("rubrics").add(rubric(target))
        context.finish("rubrics", rows_in=1)
        context.publish(metrics)
    finally:
        context.close()


def published() -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for name in ("data", "models", "reports")
        for path in sorted(Path(name).rglob("*"))
        if path.is_file()
    }


def test_what_is_published() -> None:
    run_rubrics("Paris", {"b": 1, "a": {"z": 0.5}})
    assert Path("reports/rubrics.json").read_text() == ('{\n "a": {\n  "z": 0.5\n },\n "b": 1\n}\n')
    assert set(published()) == {
        "data/rubrics/_meta.json", "data/rubrics/_validation.json",
        "data/rubrics/part-00000.parquet", "data/rubrics/_quarantine/part-00000.parquet",
        "reports/rubrics.json",
    }  # fmt: skip
    assert list(Path(".work").iterdir()) == []


def test_reading_what_another_stage_wrote(folder: Path) -> None:
    put(folder, "questions", [question("a", ["d"]), question("b", ["d"], split="test")])
    context = StageContext.create("rubrics", PARAMS)
    rows = list(context.read("questions", "split = 'test'", ["question", "split"]))
    assert rows == [{"question": "What is b?", "split": "test"}]
    assert context.dataset("questions") is context.dataset("questions")
    context.close()


@pytest.mark.parametrize(
    ("stage", "call", "message"),
    [
        ("rubrics", lambda c: c.read("documents"), "rubrics does not read documents"),
        ("rubrics", lambda c: c.model("warmup"), "rubrics does not read model warmup"),
        ("rubrics", lambda c: c.writer("questions"), "rubrics does not write questions"),
        ("rubrics", lambda c: c.model_folder("policy"), "does not write model policy"),
        ("rubrics", lambda c: c.plot("policy", [{"a": 1}]), "does not plot policy"),
        ("rubrics", lambda c: c.details({}), "does not write details"),
        ("warmup", lambda c: c.plot("warmup", []), r"does not plot warmup \(0 rows\)"),
        ("rubrics", lambda c: c.publish({}), r"did not write dataset \['rubrics'\]"),
        ("warmup", lambda c: c.publish({}), r"did not write model \['warmup'\]"),
        ("evaluate", lambda c: c.publish({}), r"did not write dataset \['evaluations'\]"),
    ],
)
def test_only_what_the_layout_allows(stage: str, call: Any, message: str) -> None:
    context = StageContext.create(stage, PARAMS)
    with pytest.raises(ValueError, match=message):
        call(context)
    context.close()
    assert published() == {}


def test_models_and_plots(folder: Path) -> None:
    context = StageContext.create("warmup", PARAMS)
    (context.model_folder("warmup") / "config.json").write_text("{}")
    (context.scratch / "big").write_text("x")
    with pytest.raises(ValueError, match=r"did not write plot \['warmup'\]"):
        context.publish({})
    context.plot("warmup", [{"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.25}])
    context.publish({})
    context.close()
    assert published() == {
        "models/warmup/config.json": b"{}",
        "reports/plots/warmup.csv": b"step,loss\n1,0.5\n2,0.25\n",
        "reports/warmup.json": b"{}\n",
    }


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [{"a": float("-inf")}]])
def test_metrics_that_are_no_numbers_publish_nothing(value: object) -> None:
    run_rubrics("Paris", {"mean": 1})
    before = published()
    with pytest.raises(ValueError, match="JSON"):
        run_rubrics("Rome", {"mean": value})
    assert published() == before


def test_work_that_fails_leaves_nothing_and_changes_nothing() -> None:
    run_rubrics("Paris", {})
    before = published()
    context = StageContext.create("rubrics", PARAMS)
    context.writer("rubrics").add(rubric("Rome"))
    with pytest.raises(RuntimeError, match="accounting"):
        context.finish("rubrics", rows_in=2)
    context.close()
    assert published() == before
    assert list(Path(".work").iterdir()) == []


def test_abandoned_work_of_dead_processes_is_removed(folder: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    kept = [f".work/rubrics-{os.getppid()}", f".work/policy-{dead.pid}", ".work/rubrics-notes"]
    # Its own process id: containers hand out the same ids again.
    gone = [f".work/rubrics-{dead.pid}", f".work/rubrics-{os.getpid()}"]
    for name in (*kept, *gone):
        (folder / name / "data").mkdir(parents=True)
    context = StageContext.create("rubrics", PARAMS)
    assert sorted(str(path) for path in Path(".work").iterdir()) == sorted([*kept, gone[1]])
    assert list(context.work.iterdir()) == []
    context.close()


def test_what_an_interrupted_swap_moved_aside_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, "questions", [question("a", ["d"]), question("b", ["d"], split="test")])
    (folder / "models" / "warmup").mkdir(parents=True)
    for name in ("data/questions", "models/warmup"):
        os.replace(name, publish_module._aside(Path(name)))
    context = StageContext.create("candidates", PARAMS)
    assert len(list(context.read("questions"))) == 2
    assert context.model("warmup").is_dir()
    context.close()


def test_rows_written_are_those_that_were_finished(folder: Path) -> None:
    context = StageContext.create("rubrics", PARAMS)
    context.writer("rubrics").add(rubric("Paris"))
    assert context.rows_written() == {}
    context.finish("rubrics", rows_in=1)
    assert context.rows_written() == {"rubrics": 1}
    context.close()


def test_details_are_published_apart(folder: Path) -> None:
    context = StageContext.create("evaluate", PARAMS)
    context.details({"b": [1]})
    with pytest.raises(ValueError, match="evaluations"):
        context.publish({})
    file = json.loads((context.work / "details.json").read_text())
    assert file == {"b": [1]}
    context.close()
