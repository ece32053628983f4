"""What the reward model refuses to learn from."""

from __future__ import annotations

import pytest

from pipelines.params import compose_params
from schemas.errors import UserError
from stages.llm.library import Item
from stages.llm.prompts import Prompt
from stages.reward_model.bradley_terry import Config, check_prompt
from tests.conftest import ROOT
from tests.unit.stages.harness import question
from tests.unit.stages.library import context_row


def test_pairs_of_another_prompt() -> None:
    config = Config(**compose_params(root=ROOT).raw["reward_model"])
    item = Item(question("q", ["doc"]), context_row(4, "long"), Prompt("q?", {}, "hash"), {})
    check_prompt(config, item, [{"prompt_hash": "hash"}, {"prompt_hash": "hash"}])
    with pytest.raises(UserError, match="other prompts than the candidates answered"):
        check_prompt(config, item, [{"prompt_hash": "hash"}, {"prompt_hash": "other"}])
