"""transformers: sampling from the softmax, and the same answer for the same seed in any company."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import UserError
from stages.llm.answer import Answer
from stages.llm.backends.transformers import TransformersBackend, gumbel_processor
from stages.llm.request import Message, Request, Sampling
from stages.llm.tokenizer import end_tokens, load_causal_lm, load_tokenizer

PROMPTS = [
    "Paris is in France . Question : What is old ? Answer :",
    "Rome is old .",
    "Question : What is in Italy ?",
    "Rome",
    "What is the France of Paris ? The Italy of Rome . Answer : Rome is old and Paris is old .",
]
REQUESTS = [
    Request(f"{seed}-{number}", prompt, seed)
    for seed in (1, 2, 3)
    for number, prompt in enumerate(PROMPTS)
]
DRAWN = Sampling(temperature=1.0, top_p=1.0, max_new_tokens=12)
GREEDY = Sampling(temperature=0, top_p=1.0, max_new_tokens=12)


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> Any:
    return load_causal_lm(tiny_model).float()


@pytest.fixture(scope="module")
def tokenizer(tiny_model: Path) -> Any:
    return load_tokenizer(tiny_model)


def draw(
    model: Any,
    tokenizer: Any,
    requests: Sequence[Request],
    sampling: Sampling = DRAWN,
    batch: int = 4,
) -> dict[str, tuple[str, str | None, int, int]]:
    """Status, text, prompt tokens and tokens of each answer by id; the seconds are not compared."""
    backend = TransformersBackend(model, tokenizer, batch)
    found = list(backend.generate(requests, sampling))
    assert sorted(name for name, _ in found) == sorted(request.id for request in requests)
    return {name: (a.status, a.text, a.n_prompt_tokens, a.n_tokens) for name, a in found}


def scores(
    model: Any, tokenizer: Any, requests: Sequence[Request], batch: int = 4
) -> dict[str, Answer]:
    return dict(TransformersBackend(model, tokenizer, batch).score(requests))


@pytest.fixture(scope="module")
def alone(model: Any, tokenizer: Any) -> dict[str, tuple[str, str | None, int, int]]:
    """Each request answered on its own."""
    return {name: value for r in REQUESTS for name, value in draw(model, tokenizer, [r]).items()}


@pytest.mark.parametrize("batch", [1, 4, 64])
def test_the_same_text_in_any_batch_and_order(
    model: Any, tokenizer: Any, alone: Any, batch: int
) -> None:
    requests = list(REQUESTS)
    random.Random(batch).shuffle(requests)
    assert draw(model, tokenizer, requests, batch=batch) == alone


def test_the_texts_differ_with_the_seed_and_the_prompt(alone: Any) -> None:
    assert len({text for _, text, _, _ in alone.values()}) == len(REQUESTS)


def test_greedy_at_temperature_0(model: Any, tokenizer: Any) -> None:
    import torch

    requests = REQUESTS[:3] + REQUESTS[5:8]
    found = draw(model, tokenizer, requests, GREEDY, batch=3)
    for request in requests:
        tokens = tokenizer.encode(request.prompt, add_special_tokens=False)
        assert found[request.id][2] == len(tokens)
        written: list[int] = []
        with torch.inference_mode():
            while len(written) < GREEDY.max_new_tokens:
                logits = model(torch.tensor([tokens + written])).logits[0, -1]
                written.append(int(logits.argmax()))
                if written[-1] == tokenizer.eos_token_id:
                    written.pop()
                    break
        assert found[request.id][1] == (tokenizer.decode(written) or None)


def test_how_answers_end(model: Any, tiny_model: Path, alone: Any) -> None:
    """A text that the model ends is `ok`, without the end token; one cut at the limit `length`."""
    request = next(r for r in REQUESTS if alone[r.id][0] == "length")
    _, whole, _, n_tokens = alone[request.id]
    tokenizer = load_tokenizer(tiny_model)  # its own: the end token is changed below
    tokens = tokenizer.encode(whole, add_special_tokens=False)
    assert n_tokens == len(tokens) == DRAWN.max_new_tokens
    # Cut by one token, it ends at the limit; with another end token, where that one comes.
    shorter = DRAWN.model_copy(update={"max_new_tokens": 11})
    cut = draw(model, tokenizer, [request], shorter)[request.id]
    assert cut[:2] == ("length", tokenizer.decode(tokens[:11]))
    end = tokens.index(tokens[6])
    tokenizer.eos_token = tokenizer.convert_ids_to_tokens(tokens[end])
    ended = draw(model, tokenizer, [request])[request.id]
    assert ended[0] == "ok" and ended[3] == end
    assert ended[1] == tokenizer.decode(tokens[:end])
    # With its first token as the end token, the model says nothing.
    tokenizer.eos_token = tokenizer.convert_ids_to_tokens(tokens[0])
    assert draw(model, tokenizer, [request])[request.id][:2] == ("empty", None)


def test_any_of_the_ends_that_a_model_declares_ends_an_answer(
    model: Any, tokenizer: Any, alone: Any
) -> None:
    """The end of a turn and the end of a text: the tokenizer knows one of them."""
    request = next(r for r in REQUESTS if alone[r.id][0] == "length")
    tokens = tokenizer.encode(alone[request.id][1], add_special_tokens=False)
    end = tokens.index(tokens[6])
    own = model.generation_config.eos_token_id
    model.generation_config.eos_token_id = [own, tokens[end]]
    try:
        found = draw(model, tokenizer, [request])[request.id]
    finally:
        model.generation_config.eos_token_id = own
    assert (found[0], found[1], found[3]) == ("ok", tokenizer.decode(tokens[:end]), end)


@pytest.mark.parametrize("declared", [None, 7, [7], [7, 2]])
def test_the_ends(tokenizer: Any, declared: Any) -> None:
    found = end_tokens(tokenizer, declared)
    given = declared if isinstance(declared, list) else [declared]
    assert found == {tokenizer.eos_token_id, *given} - {None}


def test_no_requests(model: Any, tokenizer: Any) -> None:
    assert draw(model, tokenizer, []) == {}
    assert scores(model, tokenizer, []) == {}


def test_defaults_that_a_model_brings_change_nothing(
    model: Any, tokenizer: Any, alone: Any
) -> None:
    own = model.generation_config
    own.repetition_penalty, own.no_repeat_ngram_size = 5.0, 1
    try:
        found = draw(model, tokenizer, REQUESTS[:4])
        assert found == {r.id: alone[r.id] for r in REQUESTS[:4]}
        assert model.generation_config is own
    finally:
        own.repetition_penalty, own.no_repeat_ngram_size = None, None


CONTINUED = [
    Request(f"{number}-{rest}", prompt, continuation=rest)
    for number, prompt in enumerate(PROMPTS)
    for rest in ("Rome", "Paris is old .", "in Italy and the France of Rome ?")
]


def test_scores_are_the_log_softmax_of_a_plain_forward_pass(model: Any, tokenizer: Any) -> None:
    import torch

    found = scores(model, tokenizer, CONTINUED, batch=64)
    for request in CONTINUED:
        prompt = tokenizer.encode(request.prompt, add_special_tokens=False)
        rest = tokenizer.encode(request.continuation, add_special_tokens=False)
        with torch.inference_mode():
            logits = model(torch.tensor([prompt + rest])).logits[0].double()
        places = range(len(prompt) - 1, len(prompt) + len(rest) - 1)
        expected = [
            float(torch.log_softmax(logits[place], dim=0)[token])
            for place, token in zip(places, rest, strict=True)
        ]
        answer = found[request.id]
        assert answer.status == "ok" and answer.text is None
        assert answer.logprobs == pytest.approx(expected, abs=1e-4)
        assert answer.n_prompt_tokens == len(prompt) + (0 if len(rest) == 1 else len(rest))


def test_words_of_one_token_are_read_from_one_prompt(model: Any, tokenizer: Any) -> None:
    words = [Request(word, PROMPTS[0], continuation=word) for word in ("Rome", "Paris", "Italy")]
    reads: list[int] = []
    hook = model.register_forward_hook(lambda *given: reads.append(1))
    try:
        together = scores(model, tokenizer, words, batch=1)
    finally:
        hook.remove()
    assert len(reads) == 1
    assert sum(answer.n_prompt_tokens for answer in together.values()) == len(
        tokenizer.encode(PROMPTS[0], add_special_tokens=False)
    )
    for word in words:
        (alone,) = scores(model, tokenizer, [word], batch=1).values()
        assert together[word.id].logprobs == pytest.approx(alone.logprobs, abs=1e-5)


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_scores_are_the_same_in_any_batch(model: Any, tokenizer: Any, batch: int) -> None:
    whole = scores(model, tokenizer, CONTINUED, batch=64)
    found = scores(model, tokenizer, CONTINUED[::-1], batch=batch)
    for name, answer in whole.items():
        assert found[name].logprobs == pytest.approx(answer.logprobs, abs=1e-4)


def test_a_log_probability_that_is_no_number(model: Any, tokenizer: Any) -> None:
    class Broken:
        device = "cpu"

        def __call__(self, **given: Any) -> Any:
            output = model(**given)
            output.logits[0] = math.nan
            return output

    first, second = CONTINUED[:2]
    found = scores(Broken(), tokenizer, [first, second])
    assert found[first.id].status == "nan" and found[first.id].logprobs is None
    assert found[second.id].status == "ok"


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_an_answer_from_what_is_no_number(model: Any, tokenizer: Any, temperature: float) -> None:
    """It would be some text; the other answers of the batch are as without it."""
    steps: list[int] = []

    def spoil(module: Any, inputs: Any, logits: Any) -> Any:
        steps.append(len(steps))
        if len(steps) == 2:
            logits[0, -1, 7] = math.nan
        return logits

    sampling = Sampling(temperature=temperature, top_p=1.0, max_new_tokens=4)
    asked = [Request("first", PROMPTS[0], seed=1), Request("second", PROMPTS[0], seed=2)]
    sound = dict(TransformersBackend(model, tokenizer, 2).generate(asked, sampling))
    hook = model.lm_head.register_forward_hook(spoil)
    try:
        found = dict(TransformersBackend(model, tokenizer, 2).generate(asked, sampling))
    finally:
        hook.remove()
    assert found["first"].status == "nan" and found["first"].text is None
    assert found["second"].text == sound["second"].text
    assert found["second"].status == sound["second"].status != "nan"


def test_turns_need_a_chat_template(model: Any, tokenizer: Any) -> None:
    backend = TransformersBackend(model, tokenizer, 1)
    with pytest.raises(UserError, match="no chat template"):
        backend.encode([Request("a", (Message("user", "Rome"),))])


def test_the_window_and_the_tokens_of_a_request(model: Any, tokenizer: Any) -> None:
    backend = TransformersBackend(model, tokenizer, 1)
    assert backend.window == 256
    four, five = backend.encode(
        [Request("a", "Rome is old ."), Request("b", "Rome is old .", continuation="Paris")]
    )
    assert list(four) == tokenizer.encode("Rome is old .", add_special_tokens=False)
    assert list(five) == [*four, *tokenizer.encode("Paris", add_special_tokens=False)]


def test_a_low_top_p_takes_the_likeliest(model: Any, tokenizer: Any) -> None:
    narrow = DRAWN.model_copy(update={"top_p": 1e-6})
    assert draw(model, tokenizer, REQUESTS, narrow) == draw(model, tokenizer, REQUESTS, GREEDY)


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
