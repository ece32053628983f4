"""Sampling: from the softmax, and the same text for the same seed in any company."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from stages.llm.generate import Generation, Request, Sampling, generate, gumbel_processor
from stages.llm.tokenizer import load_causal_lm, load_tokenizer

PROMPTS = [
    "Paris is in France . Question : What is old ? Answer :",
    "Rome is old .",
    "Question : What is in Italy ?",
    "Rome",
    "What is the France of Paris ? The Italy of Rome . Answer : Rome is old and Paris is old .",
]
REQUESTS = [Request(prompt, seed) for seed in (1, 2, 3) for prompt in PROMPTS]
DRAWN = Sampling(temperature=1.0, top_p=1.0, max_new_tokens=12)
GREEDY = Sampling(temperature=0, top_p=1.0, max_new_tokens=12)


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> Any:
    return load_causal_lm(tiny_model).float()


@pytest.fixture(scope="module")
def tokenizer(tiny_model: Path) -> Any:
    return load_tokenizer(tiny_model)


@pytest.fixture(scope="module")
def alone(model: Any, tokenizer: Any) -> list[Generation]:
    """Each request generated on its own."""
    return [generate(model, tokenizer, [r], DRAWN, batch=1)[0] for r in REQUESTS]


@pytest.mark.parametrize("batch", [1, 4, 64])
def test_the_same_text_in_any_batch_and_order(
    model: Any, tokenizer: Any, alone: list[Generation], batch: int
) -> None:
    order = list(range(len(REQUESTS)))
    random.Random(batch).shuffle(order)
    found = generate(model, tokenizer, [REQUESTS[i] for i in order], DRAWN, batch)
    assert found == [alone[i] for i in order]


def test_the_texts_differ_with_the_seed_and_the_prompt(alone: list[Generation]) -> None:
    assert len({generation.text for generation in alone}) == len(REQUESTS)


def test_greedy_at_temperature_0(model: Any, tokenizer: Any) -> None:
    import torch

    requests = [Request(prompt, seed) for prompt in PROMPTS[:3] for seed in (1, 2)]
    found = generate(model, tokenizer, requests, GREEDY, batch=3)
    for request, generation in zip(requests, found, strict=True):
        tokens = tokenizer.encode(request.prompt, add_special_tokens=False)
        assert generation.n_prompt_tokens == len(tokens)
        written: list[int] = []
        with torch.inference_mode():
            while len(written) < GREEDY.max_new_tokens:
                logits = model(torch.tensor([tokens + written])).logits[0, -1]
                written.append(int(logits.argmax()))
                if written[-1] == tokenizer.eos_token_id:
                    written.pop()
                    break
        assert generation.text == tokenizer.decode(written)


def test_finish_reasons(model: Any, tiny_model: Path, alone: list[Generation]) -> None:
    """A text that the model ends is `stop`, without the end token; any other is `length`."""
    index = next(i for i, found in enumerate(alone) if found.finish_reason == "length")
    whole = alone[index]
    tokenizer = load_tokenizer(tiny_model)  # its own: the end token is changed below
    tokens = tokenizer.encode(whole.text, add_special_tokens=False)
    assert whole.n_tokens == len(tokens) == DRAWN.max_new_tokens
    # Cut by one token, it ends at the limit; with another end token, where that one comes.
    shorter = DRAWN.model_copy(update={"max_new_tokens": 11})
    (cut,) = generate(model, tokenizer, [REQUESTS[index]], shorter, batch=1)
    assert (cut.finish_reason, cut.text) == ("length", tokenizer.decode(tokens[:11]))
    end = tokens.index(tokens[6])
    tokenizer.eos_token = tokenizer.convert_ids_to_tokens(tokens[end])
    (ended,) = generate(model, tokenizer, [REQUESTS[index]], DRAWN, batch=1)
    assert (ended.finish_reason, ended.n_tokens) == ("stop", end)
    assert ended.text == tokenizer.decode(tokens[:end])


def test_no_requests(model: Any, tokenizer: Any) -> None:
    assert generate(model, tokenizer, [], DRAWN, batch=4) == []


def test_defaults_that_a_model_brings_change_nothing(
    model: Any, tokenizer: Any, alone: list[Generation]
) -> None:
    own = model.generation_config
    own.repetition_penalty, own.no_repeat_ngram_size = 5.0, 1
    try:
        assert generate(model, tokenizer, REQUESTS[:4], DRAWN, batch=4) == alone[:4]
        assert model.generation_config is own
    finally:
        own.repetition_penalty, own.no_repeat_ngram_size = None, None


def test_a_low_top_p_takes_the_likeliest(model: Any, tokenizer: Any) -> None:
    narrow = DRAWN.model_copy(update={"top_p": 1e-6})
    greedy = generate(model, tokenizer, REQUESTS, GREEDY, batch=4)
    assert generate(model, tokenizer, REQUESTS, narrow, batch=4) == greedy


def test_draws_follow_the_softmax() -> None:
    """Chi-square of 20,000 draws over eight tokens; the seeds are fixed, so it never wavers."""
    import torch
    from scipy.stats import chisquare

    logits = torch.tensor([2.0, 1.5, 1.0, 0.5, 0.0, -0.5, -1.0, float("-inf")])
    draws = 20_000
    noisy = gumbel_processor(range(draws))(torch.empty(0), logits.repeat(draws, 1))
    counts = torch.bincount(noisy.argmax(dim=1), minlength=8)
    expected = torch.softmax(logits.double(), dim=0) * draws
    assert counts[7] == 0
    assert chisquare(counts[:7].numpy(), expected[:7].numpy()).pvalue > 0.01


def test_later_draws_of_one_stream_follow_the_softmax_too() -> None:
    import torch
    from scipy.stats import chisquare

    logits = torch.tensor([[1.0, 0.0, -1.0]])
    processor = gumbel_processor([7])
    counts = [0, 0, 0]
    for _ in range(6_000):
        counts[int(processor(torch.empty(0), logits).argmax())] += 1
    expected = torch.softmax(logits[0].double(), dim=0) * 6_000
    assert chisquare(counts, expected.numpy()).pvalue > 0.01
