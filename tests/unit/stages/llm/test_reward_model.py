"""Scoring: what stands beside a sequence in its batch does not change its score."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from pipelines.params import compose_params
from schemas.errors import UserError
from stages.llm.reward_model import in_order, load_reward_model, score, scoring_batch, sequence
from stages.llm.tokenizer import load_causal_lm, load_tokenizer
from stages.llm.training import save
from tests.conftest import ROOT

TEXTS = ["Rome", "Paris is in France .", "Rome is in Italy and old .", "is", "old of the Italy ? ."]


@pytest.fixture(scope="module")
def tokenizer(tiny_model: Path) -> Any:
    return load_tokenizer(tiny_model)


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> Any:
    import torch

    torch.manual_seed(1)
    model = load_reward_model(tiny_model)
    torch.nn.init.normal_(model.score.weight)
    return model


@pytest.fixture(scope="module")
def sequences(tokenizer: Any) -> list[list[int]]:
    return [sequence(tokenizer, "Question :", text) for text in TEXTS]


def test_a_sequence_is_prompt_response_and_end(tokenizer: Any) -> None:
    tokens = sequence(tokenizer, "Question :", "Rome")
    assert tokenizer.convert_ids_to_tokens(tokens) == ["Question", ":", "Rome", "<eos>"]


@pytest.mark.parametrize("batch", [1, 2, 5, 99])
def test_padding_and_order_change_no_score(
    model: Any, sequences: list[list[int]], tokenizer: Any, batch: int
) -> None:
    alone = [score(model, tokenizer, [tokens], 1)[0] for tokens in sequences]
    assert len({round(value, 4) for value in alone}) == len(TEXTS)
    order = list(range(len(TEXTS)))
    random.Random(batch).shuffle(order)
    found = score(model, tokenizer, [sequences[i] for i in order], batch)
    assert found == pytest.approx([alone[i] for i in order], abs=1e-5)


def test_the_score_is_read_at_the_end_token(
    model: Any, sequences: list[list[int]], tokenizer: Any
) -> None:
    import torch

    with torch.inference_mode():
        hidden = model.model(torch.tensor([sequences[2]])).last_hidden_state
        expected = float(model.score(hidden)[0, -1, 0])
    assert score(model, tokenizer, sequences, 5)[2] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("broken", [float("nan"), float("inf"), float("-inf")])
def test_a_score_that_is_not_finite_is_none(
    model: Any, sequences: list[list[int]], tokenizer: Any, broken: float
) -> None:
    """One sequence's score breaks; its neighbours in the batch keep theirs."""
    whole = score(model, tokenizer, sequences, 5)
    longest = max(range(len(sequences)), key=lambda i: len(sequences[i]))

    def breaks(_: Any, __: Any, logits: Any) -> Any:
        logits = logits.clone()
        logits[-1] = broken  # a batch is sorted by length
        return logits

    handle = model.score.register_forward_hook(breaks)
    try:
        found = score(model, tokenizer, sequences, 5)
    finally:
        handle.remove()
    assert found[longest] is None
    assert [v for i, v in enumerate(found) if i != longest] == [
        v for i, v in enumerate(whole) if i != longest
    ]


def test_pairs_in_order() -> None:
    assert in_order(1.0, 0.0) is True
    assert in_order(1.0, 1.0) is False
    assert in_order(None, 0.0) is None
    assert in_order(0.0, None) is None


@pytest.mark.parametrize(("micro", "batch"), [(None, 16), (4, 4), (32, 16)])
def test_no_more_are_scored_at_once_than_are_trained(micro: int | None, batch: int) -> None:
    runtime = compose_params(root=ROOT).runtime
    assert (
        scoring_batch(runtime.model_copy(update={"generation_batch": 16, "micro_batch": micro}))
        == batch
    )


def test_nothing_to_score(model: Any, tokenizer: Any) -> None:
    assert score(model, tokenizer, [], 4) == []


def test_saved_and_loaded_again(
    model: Any, sequences: list[list[int]], tokenizer: Any, tmp_path: Path
) -> None:
    before = score(model, tokenizer, sequences, 5)
    save(model, tokenizer, tmp_path / "saved")
    loaded, its = load_reward_model(tmp_path / "saved"), load_tokenizer(tmp_path / "saved")
    assert score(loaded, its, sequences, 5) == before
    assert its.padding_side == "left"
    assert [path.name for path in (tmp_path / "saved").glob("*.safetensors")] == [
        "model.safetensors"
    ]


def test_a_language_model_saved_and_loaded_again(tiny_model: Path, tmp_path: Path) -> None:
    model, tokenizer = load_causal_lm(tiny_model), load_tokenizer(tiny_model)
    save(model, tokenizer, tmp_path / "saved")
    again = load_causal_lm(tmp_path / "saved").state_dict()
    assert all(again[name].equal(weight) for name, weight in model.state_dict().items())


def test_the_same_bytes_when_saved_twice(model: Any, tokenizer: Any, tmp_path: Path) -> None:
    for name in ("a", "b"):
        save(model, tokenizer, tmp_path / name)
    files = [{p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in ("a", "b")]
    assert files[0] == files[1]


@pytest.mark.parametrize("load", [load_causal_lm, load_tokenizer, load_reward_model])
def test_no_model_there(load: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no model or tokenizer at") as caught:
        load(tmp_path / "nothing")
    assert caught.value.fix == "dvc repro"
