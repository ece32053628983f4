"""The configuration of a reward: what is accepted, and what each rejection says."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from stages.rewards.spec import EntityRecallTerm, PositiveOnly, RewardConfig

OUTCOME = {"kind": "outcome"}
RUBRIC = {"kind": "entity_recall"}
POSITIVE = {"kind": "positive_only", "outcome": "outcome", "rubric": "rubric"}


def test_the_default_recipe_has_the_papers_values() -> None:
    config = RewardConfig.model_validate(
        {"terms": {"outcome": OUTCOME, "rubric": RUBRIC}, "combine": POSITIVE}
    )
    assert config.combine == PositiveOnly(
        kind="positive_only", outcome="outcome", rubric="rubric", eta=0.3
    )
    assert config.terms["rubric"] == EntityRecallTerm(
        kind="entity_recall", boundary="word", group="max", max_over="all"
    )
    assert config.required == ("outcome", "rubric")
    assert config.outcome_name == "outcome"
    assert RewardConfig.model_validate_json(config.model_dump_json()) == config


def test_a_term_of_weight_zero_is_recorded_and_not_required() -> None:
    config = RewardConfig.model_validate(
        {
            "terms": {"a": OUTCOME, "b": {"kind": "format"}},
            "combine": {"kind": "weighted_sum", "weights": {"a": 1.0, "b": 0.0}},
        }
    )
    assert config.named == ("a", "b")
    assert config.required == ("a",)


def weights(**values: float) -> dict[str, Any]:
    return {"kind": "weighted_sum", "weights": values}


@pytest.mark.parametrize(
    ("terms", "combine", "message"),
    [
        ({"outcome": OUTCOME}, POSITIVE, r"unknown terms \['rubric'\]; allowed: outcome"),
        ({"a": OUTCOME, "b": RUBRIC}, weights(a=1), r"terms \['b'\] are not used.*names: a"),
        ({"a": OUTCOME}, weights(a=1, c=1), r"\['c'\]; allowed: a"),
        ({"a": OUTCOME}, weights(a=0), "every weight is 0"),
        ({"a": OUTCOME}, weights(a=float("nan")), "finite"),
        ({}, weights(), "at least 1"),
        ({"a": {"kind": "bleu"}}, weights(a=1), "'outcome'.*'format'"),
        ({"a": {**OUTCOME, "metric": "f1"}}, weights(a=1), "Extra inputs"),
        ({"a": {"kind": "citation", "beta": 0}}, weights(a=1), "greater than 0"),
        (
            {"outcome": OUTCOME},
            {"kind": "positive_only", "outcome": "outcome", "rubric": "outcome"},
            "one term twice",
        ),
        ({"outcome": OUTCOME, "rubric": RUBRIC}, {**POSITIVE, "eta": 1.5}, "less than or equal"),
        (
            {"a": OUTCOME, "b": {**RUBRIC, "group": "none", "max_over": "correct"}},
            weights(a=1, b=1),
            "max_over has no effect",
        ),
        (
            {"b": {**RUBRIC, "max_over": "correct"}},
            weights(b=1),
            "needs exactly one outcome term",
        ),
        (
            {"a": OUTCOME, "a2": OUTCOME, "b": {**RUBRIC, "max_over": "correct"}},
            weights(a=1, a2=1, b=1),
            "needs exactly one outcome term",
        ),
        (
            {"outcome": {"kind": "reward_model", "squash": "none"}, "rubric": RUBRIC},
            POSITIVE,
            "squash: sigmoid",
        ),
    ],
)
def test_rejections(terms: dict[str, Any], combine: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        RewardConfig.model_validate({"terms": terms, "combine": combine})
