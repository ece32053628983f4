"""A small workspace, written as stages write it, with hostile text in every place a user fills."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas.contract import load_contract
from schemas.ids import content_id
from schemas.write import DatasetWriter

HOSTILE = "<script>alert('x')</script>"
TEXT = f"The capital of France is Paris. {HOSTILE} is not a capital. Rome is old."
CUTS = ((0, 31), (32, 76), (77, 89))
DOC = content_id("document")
CHUNKS = [content_id("chunk", i) for i in range(3)]
QUESTIONS = [content_id("question", i) for i in range(6)]


def write(root: Path, dataset: str, rows: Iterable[dict[str, Any]], lost: int = 0) -> None:
    """One published dataset; `lost` inputs are dropped with a reason."""
    folder = root / "data" / dataset
    folder.parent.mkdir(exist_ok=True)
    writer = DatasetWriter(load_contract(dataset), folder)
    found = list(rows)
    for row in found:
        writer.add(row)
    if lost:
        writer.drop("duplicate", lost)
    writer.finish(rows_in=len(found) + lost)


def question(number: int) -> dict[str, Any]:
    return {
        "question_id": QUESTIONS[number],
        "split": "test" if number < 5 else "train",
        "question": f"What is the capital of France? {HOSTILE}",
        "answer": HOSTILE if number == 0 else "Paris",
        "aliases": [], "entities": ["Paris"], "relations": ["capital"],
        "gold_doc_ids": [DOC] if number < 5 else ["other"], "gold_chunk_ids": [CHUNKS[0]],
        "hops": 1, "task_type": "single_hop", "metric": "exact_match", "source": "test",
        "source_id": None, "wording": "w",
    }  # fmt: skip


def evaluation(number: int, system: str, measure: str, value: float) -> dict[str, Any]:
    return {
        "question_id": QUESTIONS[number], "system": system, "measure": measure, "sample": 0,
        "value": value, "status": "ok", "split": "test", "hops": 1, "n_tokens": 40,
        "budget_tokens": 64, "gold_position": 0.0, "hardest_tier": "none",
        "text": f"Answer: {HOSTILE}" if measure == "reward" else None,
    }  # fmt: skip


def rollout(sample: int) -> dict[str, Any]:
    value = float(sample % 2)
    return {
        "rollout_id": content_id("rollout", sample), "step": 0, "question_id": QUESTIONS[5],
        "sample": sample, "text": f"{HOSTILE} {sample}", "n_tokens": 5, "finish_reason": "stop",
        "status": "ok", "parts": [("outcome", value)], "raw": [("outcome", value)],
        "reward": value, "advantage": value - 0.5,
    }  # fmt: skip


def interval(value: float) -> dict[str, Any]:
    return {"value": value, "low": value - 0.1, "high": value + 0.1, "n": 5}


RIGHT = {"warmup": (0, 1), "policy": (0, 2), "blind": ()}


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace in which everything has run. Do not change it; take `workspace_copy`."""
    root = tmp_path_factory.mktemp("workspace")
    write(root, "documents", [{
        "doc_id": DOC, "title": HOSTILE, "text": TEXT, "lang": "en", "source": "a.txt:1",
        "licence": None, "n_chars": len(TEXT), "n_tokens": 12,
    }], lost=2)  # fmt: skip
    write(root, "chunks", [
        {"chunk_id": chunk, "doc_id": DOC, "position": i, "char_start": a, "char_end": b,
         "n_tokens": 4}
        for i, (chunk, (a, b)) in enumerate(zip(CHUNKS, CUTS, strict=True))
    ])  # fmt: skip
    write(root, "questions", [question(i) for i in range(6)])
    write(root, "contexts", [{
        "question_id": q, "view": "long", "split": "test",
        "documents": [{"doc_id": DOC, "role": "gold"}], "n_gold": 1, "n_tokens": 40,
        "budget_tokens": 64, "gold_position": 0.0, "hardest_tier": "none", "order_seed": 1,
    } for q in QUESTIONS])  # fmt: skip
    write(root, "evaluations", [
        evaluation(i, system, measure, float(i in right))
        for i in range(5) for system, right in RIGHT.items() for measure in ("reward", "outcome")
    ])  # fmt: skip
    write(root, "rollouts", [rollout(i) for i in range(6)])
    answers = {"warmup": interval(0.4), "policy": interval(0.4), "difference": interval(0.0)}
    metrics = {
        "questions": 5,
        "answers": {"reward": answers, "outcome": answers},
        "blind": {"reward": interval(0.0), "outcome": interval(0.0)},
        "reward_model": {},
    }
    (root / "reports").mkdir()
    (root / "reports" / "evaluate.json").write_text(json.dumps(metrics))
    terms = {"terms": {"outcome": {"kind": "outcome"}}}
    (root / "params.yaml").write_text(yaml.safe_dump({
        "recipe": HOSTILE, "profile": "tiny", "conf_digest": "abc", "seed": {"data": 0, "train": 0},
        "corpus": {"kind": "files", "path": "inputs"},
        "evaluate": {"kind": "standard", "split": "test", "samples": 1, "seed": 0, "view": "long",
                     "reward": terms},
    }))  # fmt: skip
    (root / "dvc.yaml").write_text(yaml.safe_dump({"stages": {
        "corpus": {"outs": ["data/documents", "data/chunks"]},
        "synthesize": {"deps": ["data/documents"], "outs": ["data/questions"]},
        "evaluate": {"deps": ["data/documents", "data/questions"], "outs": ["data/evaluations"]},
    }}))  # fmt: skip
    return root


@pytest.fixture
def workspace_copy(finished: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "copy"
    shutil.copytree(finished, copy)
    return copy
