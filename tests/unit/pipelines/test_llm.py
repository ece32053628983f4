"""The command `longline llm`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pipelines.cli import main
from stages.llm.answer import Answer
from stages.llm.store import Entry, Store


def llm(*arguments: str, status: int = 0) -> Result:
    result = CliRunner().invoke(main, ["llm", *arguments])
    assert result.exit_code == status, result.output
    assert "Traceback" not in result.output
    return result


@pytest.fixture
def kept(workspace: Path) -> Path:
    store = Store.open(workspace / ".longline" / "llm")
    store.put([Entry(f"{n:032x}", "folder:1", "vllm", 0, Answer("ok", "text")) for n in range(3)])
    store.close()
    return workspace


def test_stats(kept: Path) -> None:
    told = llm("stats").output
    assert ".longline/llm: 3 answers (3 ok)" in told
    assert "folder:1: 3 answers" in told and "1970-01-01, by vllm" not in told.splitlines()[0]
    assert json.loads(llm("stats", "--json").output)["answers"] == 3


def test_export_and_merge(kept: Path) -> None:
    assert "3 answers" in llm("export", "answers.jsonl.zst").output
    told = llm("merge", "answers.jsonl.zst", "--store", "other").output
    assert told.startswith("other: 3 new, 0 known already, 0 of them")
    assert "0 new, 3 known already" in llm("merge", ".longline/llm", "--store", "other").output


def test_prune(kept: Path) -> None:
    assert "say what to remove" in llm("prune", status=2).output
    wrong = llm("prune", "--model", "folder:2", status=1).output
    assert "no answers of a model 'folder:2'" in wrong and "allowed: folder:1" in wrong
    assert "3 answers removed; 0 left" in llm("prune", "--older-than", "1", "--yes").output


def test_before_anything_was_asked(workspace: Path) -> None:
    assert "nothing has been asked yet" in llm("stats", status=1).output
    assert not (workspace / ".longline").exists()


def test_the_environment_names_the_store(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGLINE_LLM_STORE", str(kept / "elsewhere"))
    assert "no store at" in llm("stats", status=1).output
