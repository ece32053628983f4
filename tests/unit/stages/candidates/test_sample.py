"""The stage candidates with a real, if tiny, model."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from stages.candidates import sample
from stages.candidates.sample import Config
from stages.llm.generate import Generation, Request, generate
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
    (again,) = generate(
        load_causal_lm(model), load_tokenizer(model), [Request(prompt, row["seed"])], sampling, 1
    )
    assert (again.text, again.n_prompt_tokens) == (row["text"], row["n_prompt_tokens"])


def test_an_empty_answer_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Saying nothing is an answer, and a wrong one: without it the model would look better."""
    silent = Generation(text="", finish_reason="stop", n_prompt_tokens=9, n_tokens=0)
    monkeypatch.setattr(sample, "generate", lambda *given: [silent] * len(given[2]))
    ran = run_stage(folder, "candidates", VALUES)
    assert [row["text"] for row in ran.rows("candidates")] == [""] * 9
