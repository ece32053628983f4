"""Items: which questions a stage gets, rendered over which documents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stages.llm import library
from stages.llm.library import Item, items, load_documents
from stages.llm.prompts import load_template
from stages.runtime.context import StageContext
from tests.unit.stages.corpus.conftest import PARAMS
from tests.unit.stages.library import DOCS, QUESTIONS, SPLITS, put_library


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    put_library(folder)
    return folder


@pytest.fixture
def context(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StageContext]:
    monkeypatch.chdir(folder)
    context = StageContext.create("candidates", PARAMS)
    yield context
    context.close()


def found(context: StageContext, **options: Any) -> list[Item]:
    options = {"view": "long", "splits": ["train", "validation", "test"], **options}
    return list(items(context, load_template("plain"), None, **options))


def names(chosen: list[Item]) -> list[str]:
    return [item.question["question_id"] for item in chosen]


def of_splits(*splits: str) -> list[str]:
    return sorted(q for q, split in zip(QUESTIONS, SPLITS, strict=True) if split in splits)


def test_every_question_in_the_order_of_its_id(context: StageContext) -> None:
    assert names(found(context)) == sorted(QUESTIONS)


def test_only_the_given_splits(context: StageContext) -> None:
    assert names(found(context, splits=["test"])) == of_splits("test")
    assert names(found(context, splits=iter(["train", "validation"]))) == of_splits(
        "train", "validation"
    )
    assert found(context, splits=[]) == []


def test_limits_take_the_first_of_each_split(context: StageContext) -> None:
    chosen = names(found(context, limit={"train": 2, "test": 0}))
    assert chosen == sorted([*of_splits("train")[:2], *of_splits("validation")])
    assert names(found(context, limit={"train": 99, "validation": 1, "test": 2})) == sorted(
        QUESTIONS
    )


def test_the_view_decides_the_documents(context: StageContext) -> None:
    long, short = found(context)[0], found(context, view="short")[0]
    assert long.prompt.text == (
        "Rome is in Italy [1]. Italy is old [2].\n{question} is {context} \\1 [3].\n"
        f"Paris is in France [4]. France is old [5].\nQuestion: {long.question['question']}\n"
    )
    assert short.prompt.text == (
        f"Paris is in France [1]. France is old [2].\nQuestion: {short.question['question']}\n"
    )
    assert found(context, view="none") == []


def test_gold_chunks_come_with_their_text(context: StageContext) -> None:
    item = found(context)[0]
    (gold,) = item.question["gold_chunk_ids"]
    assert dict(item.gold_chunks) == {gold: "Paris is in France."}
    assert item.prompt.markers[gold] == 4


def test_the_size_of_a_batch_changes_nothing(
    context: StageContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = found(context, limit={"train": 2})
    monkeypatch.setattr(library, "_BATCH", 1)
    assert found(context, limit={"train": 2}) == whole


def test_documents_that_are_not_there_are_left_out(context: StageContext) -> None:
    datasets = (context.dataset("documents"), context.dataset("chunks"))
    assert list(load_documents(*datasets, [DOCS[1], "nowhere", DOCS[1]])) == [DOCS[1]]
    assert load_documents(*datasets, []) == {}
