"""What evaluation refuses to compare, and how it reports a part that failed."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from pipelines.params import compose_params
from schemas.errors import UserError
from stages.evaluate.standard import Config, answer_rows, check_candidates, slice_columns
from stages.llm.answer import Answer
from stages.llm.library import Item
from stages.llm.prompts import Prompt
from tests.conftest import ROOT
from tests.unit.stages.harness import question
from tests.unit.stages.library import context_row


@pytest.fixture(scope="module")
def values() -> dict[str, Any]:
    raw: dict[str, Any] = compose_params(root=ROOT).raw["evaluate"]
    return raw | {"samples": 2, "best_of": [2]}


@pytest.fixture(scope="module")
def item() -> Item:
    asked = question("q", ["doc"], split="test", answer="Paris")
    return Item(asked, context_row(4, "long"), Prompt("What is q?", {}, "hash"), {})


def candidates(item: Item, *hashes: str) -> dict[str, list[dict[str, Any]]]:
    rows = [
        {"view": "long", "sample": sample, "prompt_hash": value}
        for sample, value in enumerate(hashes)
    ]
    return {item.question["question_id"]: rows}


def test_answers_to_the_same_prompts(values: dict[str, Any], item: Item) -> None:
    check_candidates(Config(**values), [item], candidates(item, "hash", "hash"))


def test_answers_to_another_prompt(values: dict[str, Any], item: Item) -> None:
    with pytest.raises(UserError, match="other prompts than the candidates answered"):
        check_candidates(Config(**values), [item], candidates(item, "hash", "other"))


@pytest.mark.parametrize("name", ["samples", "best_of"])
def test_too_few_candidates(values: dict[str, Any], item: Item, name: str) -> None:
    config = Config(**values | {name: 3 if name == "samples" else [1, 3]})
    with pytest.raises(UserError, match=f"evaluate.{name} asks for 3 candidates, .* has 2"):
        check_candidates(config, [item], candidates(item, "hash", "hash"))


def test_the_candidates_settings_are_taken_over() -> None:
    params = compose_params(["candidates.view=short", "candidates.sampling.temperature=0.5"], ROOT)
    evaluate = params.raw["evaluate"]
    assert (evaluate["view"], evaluate["sampling"]["temperature"]) == ("short", 0.5)


def test_a_term_that_failed_leaves_the_others_their_status(
    values: dict[str, Any], item: Item
) -> None:
    """A question without rubric: the outcome is known, the rubric and so the reward are not."""
    slices = {item.question["question_id"]: slice_columns(item)}
    drawn = {0: Answer("ok", "<think> </think> Answer: Paris"), 1: Answer("ok", "Paris")}
    rows = answer_rows(Config(**values), "policy", [item], [drawn], {}, slices)
    assert {(row["sample"], row["measure"]): (row["value"], row["status"]) for row in rows} == {
        (0, "reward"): (None, "failed:reward"),
        (0, "outcome"): (1.0, "ok"),
        (0, "rubric"): (None, "failed:rubric"),
        (1, "reward"): (None, "failed:reward"),
        (1, "outcome"): (0.0, "ill_formed:no_think_end"),
        (1, "rubric"): (None, "failed:rubric"),
    }


def test_an_answer_that_failed_has_no_values_and_moves_no_other(
    values: dict[str, Any], item: Item
) -> None:
    slices = {item.question["question_id"]: slice_columns(item)}
    text = "<think> France </think> Answer: Paris"
    drawn = {0: Answer("timeout"), 1: Answer("ok", text), 3: Answer("empty")}
    entities = {item.question["question_id"]: ("France",)}
    rows = answer_rows(Config(**values), "policy", [item], [drawn], entities, slices)
    measured = {(row["sample"], row["measure"]): row for row in rows}
    assert len(measured) == len(rows) == 9
    for measure in ("reward", "outcome", "rubric"):
        failed = measured[0, measure]
        assert (failed["value"], failed["status"]) == (None, "failed:timeout")
    assert measured[0, "reward"]["text"] is None
    assert measured[1, "outcome"]["value"] == 1.0 and measured[1, "reward"]["text"] == text
    assert measured[3, "outcome"]["value"] == 0.0


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"best_of": [0]}, "greater than or equal to 1"),
        (
            {
                "reward": {
                    "terms": {"model": {"kind": "reward_model"}},
                    "combine": {"kind": "weighted_sum", "weights": {"model": 1.0}},
                }
            },
            "cannot use a reward model",
        ),
    ],
)
def test_what_cannot_be_measured(
    values: dict[str, Any], changed: dict[str, Any], told: str
) -> None:
    with pytest.raises(ValidationError, match=told):
        Config(**values | changed)
