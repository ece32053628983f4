"""What the reward model refuses to learn from, and what it counts as accuracy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.params import compose_params
from schemas.errors import UserError
from stages.llm.library import Item
from stages.llm.prompts import Prompt
from stages.llm.reward_model import load_reward_model
from stages.llm.tokenizer import load_tokenizer
from stages.reward_model.bradley_terry import Config, accuracy, check_prompt
from tests.conftest import ROOT
from tests.unit.stages.harness import question
from tests.unit.stages.library import context_row


def test_pairs_of_another_prompt() -> None:
    config = Config(**compose_params(root=ROOT).raw["reward_model"])
    item = Item(question("q", ["doc"]), context_row(4, "long"), Prompt("q?", {}, "hash"), {})
    check_prompt(config, item, [{"prompt_hash": "hash"}, {"prompt_hash": "hash"}])
    with pytest.raises(UserError, match="other prompts than the candidates answered"):
        check_prompt(config, item, [{"prompt_hash": "hash"}, {"prompt_hash": "other"}])


def pair(split: str, chosen: list[int], rejected: list[int]) -> dict[str, Any]:
    return {"split": split, "chosen_ids": chosen, "rejected_ids": rejected}


def measured(tiny_model: Path, scores: dict[int, float]) -> dict[str, float | None]:
    """Accuracy under a model that scores a sequence by its last token."""
    import torch

    model, tokenizer = load_reward_model(tiny_model), load_tokenizer(tiny_model)
    table = torch.full((model.config.vocab_size,), float("-inf"))
    for token, value in scores.items():
        table[token] = value
    model.register_forward_pre_hook(
        lambda _, __, given: model.__setattr__("read", given["input_ids"]), with_kwargs=True
    )
    model.score.register_forward_hook(lambda *_: table[model.read][..., None])
    return accuracy(model, tokenizer, PAIRS, 2, seed=1)


PAIRS = [
    pair("train", [4, 5], [4, 6]),
    pair("train", [4, 4, 6], [4, 5]),
    pair("validation", [5], [4, 7]),
    pair("validation", [5], [6]),
    pair("test", [6], [5]),
]


def test_a_pair_without_two_scores_counts_in_no_accuracy(tiny_model: Path) -> None:
    found = measured(tiny_model, {5: 2.0, 6: 1.0, 7: float("nan")})
    assert (found["accuracy_train"], found["accuracy_validation"]) == (0.5, 1.0)
    assert found["pairs_not_scored"] == 1


def test_a_model_that_diverged_is_an_error(tiny_model: Path) -> None:
    with pytest.raises(UserError, match=r"none of the 4 pairs two finite scores: .* diverged"):
        measured(tiny_model, {token: float("nan") for token in (5, 6, 7)})
