"""The stage candidates with a real, if tiny, model."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import UserError
from stages.candidates.sample import Config
from stages.llm.answer import Answer
from stages.llm.backends.transformers import TransformersBackend
from stages.llm.request import Request
from tests.unit.stages.harness import data_bytes, run_stage
from tests.unit.stages.library import QUESTIONS, SPLITS, put_library

VALUES: dict[str, Any] = {
    "kind": "sample",
    "samples": 3,
    "sampling": {"temperature": 1.0, "top_p": 1.0, "max_new_tokens": 6},
    "questions": {"train": 2, "validation": 1, "test": 0},
    "view": "long",
    "prompt": "plain",
    "seed": 4,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Path:
    folder = tmp_path_factory.mktemp("candidates")
    put_library(folder)
    shutil.copytree(tiny_model, folder / "models" / "warmup")
    return folder


def test_samples_of_the_first_questions_of_each_split(folder: Path) -> None:
    ran = run_stage(folder, "candidates", VALUES)
    rows = ran.rows("candidates")
    train = sorted(q for q, split in zip(QUESTIONS, SPLITS, strict=True) if split == "train")[:2]
    expected = {(q, number) for q in [*train, QUESTIONS[3]] for number in range(3)}
    assert len({row["candidate_id"] for row in rows}) == len(rows) == 9
    assert {(row["question_id"], row["sample"]) for row in rows} == expected
    assert ran.accounting("candidates")["in"] == 9
    assert {row["view"] for row in rows} == {"long"}
    assert {row["seed"] for row in rows} != {4}
    assert len({row["seed"] for row in rows}) == len(rows)
    assert ran.metrics["questions"] == 3
    assert all(row["n_tokens"] == 6 for row in rows if row["finish_reason"] == "length")


def test_the_same_bytes_again_and_others_with_another_seed(folder: Path) -> None:
    first = data_bytes(run_stage(folder, "candidates", VALUES), "candidates")
    assert data_bytes(run_stage(folder, "candidates", VALUES), "candidates") == first
    other = run_stage(folder, "candidates", VALUES | {"seed": 5})
    assert data_bytes(other, "candidates") != first


def test_a_row_can_be_drawn_again_from_its_seed(folder: Path) -> None:
    from stages.llm.tokenizer import load_causal_lm, load_tokenizer

    ran = run_stage(folder, "candidates", VALUES | {"view": "short"})
    row = ran.rows("candidates")[0]
    name = f"q{QUESTIONS.index(row['question_id'])}"
    prompt = f"Paris is in France [1]. France is old [2].\nQuestion: What is {name}?\n"
    model = folder / "models" / "warmup"
    sampling = Config.model_validate(VALUES).sampling
    backend = TransformersBackend(load_causal_lm(model), load_tokenizer(model), 1)
    ((_, again),) = backend.generate([Request("again", prompt, row["seed"])], sampling)
    assert (again.text, again.n_prompt_tokens) == (row["text"], row["n_prompt_tokens"])


def answer_with(monkeypatch: pytest.MonkeyPatch, *answers: Answer) -> None:
    """Have the model give these answers, in turn."""

    def generate(self: Any, requests: Any, sampling: Any) -> Iterator[tuple[str, Answer]]:
        yield from zip((request.id for request in requests), cycle(answers), strict=False)

    monkeypatch.setattr(TransformersBackend, "generate", generate)


def test_an_empty_answer_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Saying nothing is an answer, and a wrong one: without it the model would look better."""
    answer_with(monkeypatch, Answer("empty", n_prompt_tokens=9))
    ran = run_stage(folder, "candidates", VALUES | {"seed": 6})
    assert [row["text"] for row in ran.rows("candidates")] == [""] * 9


def test_a_failed_request_is_dropped_with_its_status(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = [Answer("ok", "Rome", n_tokens=1)] * 39
    answer_with(monkeypatch, Answer("timeout", detail="no answer in time"), *good)
    ran = run_stage(folder, "candidates", VALUES | {"samples": 10, "seed": 7})
    accounting = ran.accounting("candidates")
    assert (accounting["in"], accounting["out"]) == (30, 29)
    assert accounting["dropped"] == {"timeout": 1}


def test_too_many_failures_end_the_stage(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(monkeypatch, Answer("timeout", detail="no answer in time"), Answer("ok", "Rome"))
    with pytest.raises(UserError, match=r"5 of 9 requests .*max_failed") as caught:
        run_stage(folder, "candidates", VALUES | {"seed": 8})
    assert "kept" in (caught.value.fix or "")


def test_the_second_run_asks_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = data_bytes(run_stage(folder, "candidates", VALUES | {"seed": 9}), "candidates")

    def never(*given: Any) -> Any:
        raise AssertionError("a model was opened")

    monkeypatch.setattr("stages.llm.layer.open_backend", never)
    again = run_stage(folder, "candidates", VALUES | {"seed": 9})
    assert data_bytes(again, "candidates") == first
