"""The same requests on all back ends: what may differ is the last digits, and that is measured.

Greedy texts are equal; log-probabilities differ by at most `TOLERANCE` (all in float32; the
order of sums differs). Seeds repeat within a back end, not across them.
"""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from schemas.errors import UserError
from stages.llm.answer import Answer
from stages.llm.request import Message, Request, Sampling

TOLERANCE = 1e-3
GREEDY = Sampling(temperature=0.0, top_p=1.0, max_new_tokens=16)
WARM = Sampling(temperature=1.0, top_p=0.95, max_new_tokens=12)
SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 20},
            "score": {"type": "integer", "minimum": 1, "maximum": 5},
        },
        "required": ["city", "score"],
        "additionalProperties": False,
    }
)
DOCUMENT = "The tower of Lindholm was built in 1742 by Aina Berg, who was born in Visby. " * 12


def turn(text: str) -> tuple[Message, ...]:
    return (Message("user", text),)


QUESTIONS = [
    Request("capital", turn("What is the capital of France?")),
    Request("system", (Message("system", "Answer in one word."), *turn("What colour is snow?"))),
    Request("plain", "The capital of France is"),
    Request("document", f"{DOCUMENT}\nQuestion: Who built the tower?\nAnswer:", group="d"),
    Request("document again", f"{DOCUMENT}\nQuestion: When was it built?\nAnswer:", group="d"),
]
SCORED = [
    Request("yes", turn(f"{DOCUMENT}\nDid Aina Berg build it?"), continuation="Yes"),
    Request("no", turn(f"{DOCUMENT}\nDid Aina Berg build it?"), continuation="No"),
    Request("unlikely", turn(f"{DOCUMENT}\nDid Aina Berg build it?"), continuation="%"),
    Request("long", f"{DOCUMENT}\nAnswer:", continuation=" Aina Berg built the tower in 1742."),
    Request(
        "also long", f"{DOCUMENT}\nAnswer:", continuation=" Aina Berg built the tower in Visby."
    ),
]


def generated(backend: Any, requests: list[Request], sampling: Sampling) -> dict[str, Answer]:
    answers = list(backend.generate(requests, sampling))
    assert sorted(name for name, _ in answers) == sorted(request.id for request in requests)
    return dict(answers)


def scored(backend: Any, requests: list[Request]) -> dict[str, Answer]:
    answers = list(backend.score(requests))
    assert sorted(name for name, _ in answers) == sorted(request.id for request in requests)
    return dict(answers)


@pytest.mark.parametrize("other", ["vllm", "server"])
def test_greedy_texts_are_equal(
    transformers: Any, other: str, request: pytest.FixtureRequest
) -> None:
    wanted = generated(transformers, QUESTIONS, GREEDY)
    found = generated(request.getfixturevalue(other), QUESTIONS, GREEDY)
    for name, answer in wanted.items():
        assert found[name].text == answer.text, name
        assert found[name].status == answer.status, name
        assert found[name].n_prompt_tokens == answer.n_prompt_tokens, name
        assert found[name].n_tokens in (answer.n_tokens, answer.n_tokens + 1), name  # with its end


@pytest.mark.parametrize("other", ["vllm", "server"])
def test_scores_agree(transformers: Any, other: str, request: pytest.FixtureRequest) -> None:
    wanted = scored(transformers, SCORED)
    found = scored(request.getfixturevalue(other), SCORED)
    for name, answer in wanted.items():
        assert answer.logprobs
        assert found[name].status == "ok", name
        assert found[name].logprobs == pytest.approx(answer.logprobs, abs=TOLERANCE), name
    # Words of one token are read from one prompt; the server gives only its likeliest with it.
    for answers in (wanted, found):
        assert answers["yes"].n_prompt_tokens > 100 and answers["no"].n_prompt_tokens == 0
    assert wanted["unlikely"].n_prompt_tokens == 0


@pytest.mark.parametrize("other", ["vllm", "server"])
def test_answers_keep_the_schema(other: str, request: pytest.FixtureRequest) -> None:
    asked = [Request(str(n), turn(f"Name a city, number {n}."), schema=SCHEMA) for n in range(3)]
    answers = generated(
        request.getfixturevalue(other), asked, Sampling(temperature=1.0, top_p=1, max_new_tokens=60)
    )
    for answer in answers.values():
        assert answer.status == "ok"
        jsonschema.validate(json.loads(answer.text or ""), json.loads(SCHEMA))


def test_seeds_repeat_whatever_is_under_way_beside(vllm: Any) -> None:
    asked = [Request(f"s{n}", turn("Tell me a joke."), seed=n) for n in range(4)]
    together = generated(vllm, asked, WARM)
    alone = generated(vllm, asked[2:3], WARM)
    again = generated(vllm, list(reversed(asked)), WARM)
    assert alone["s2"].text == together["s2"].text
    assert {n: a.text for n, a in again.items()} == {n: a.text for n, a in together.items()}
    assert len({answer.text for answer in together.values()}) > 1


def test_an_answer_from_what_is_no_number(vllm: Any) -> None:
    """A broken model is no model that answers oddly."""

    def spoil(model: Any) -> Any:
        kept = model.model.norm.weight.data.clone()
        model.model.norm.weight.data.fill_(float("nan"))
        return kept

    def restore(model: Any) -> None:
        model.model.norm.weight.data.copy_(kept)

    (kept,) = vllm.engine.apply_model(spoil)
    try:
        answers = generated(vllm, QUESTIONS[:2], WARM) | scored(vllm, SCORED[:1])
    finally:
        vllm.engine.apply_model(restore)
    assert {answer.status for answer in answers.values()} == {"nan"}
    assert all(answer.text is None for answer in answers.values())
    vllm.engine.reset_prefix_cache()
    assert generated(vllm, QUESTIONS[:1], GREEDY)["capital"].status != "nan"


@pytest.mark.parametrize("backend", ["vllm", "server"])
def test_sampling_long_prompts_with_seeds(backend: str, request: pytest.FixtureRequest) -> None:
    """More prompt tokens than fit into one step of the engine."""
    model = request.getfixturevalue(backend)
    asked = [
        Request(f"l{n}", f"{n}. {DOCUMENT}{DOCUMENT}\nAnswer:", seed=2**62 + n) for n in range(6)
    ]
    few = Sampling(temperature=1.0, top_p=1.0, max_new_tokens=4)
    together = generated(model, asked, few)
    assert {answer.status for answer in together.values()} <= {"ok", "length", "empty"}
    if backend == "vllm":
        model.engine.reset_prefix_cache()
    assert generated(model, asked[5:], few)["l5"].text == together["l5"].text


def test_the_adapter_changes_answers_as_it_does_in_transformers(
    vllm: Any, with_adapter: Any, transformers_with_adapter: Any
) -> None:
    wanted = scored(transformers_with_adapter, SCORED[:2])
    found = scored(with_adapter, SCORED[:2])
    plain = scored(vllm, SCORED[:2])
    for name, answer in wanted.items():
        assert answer.logprobs
        assert found[name].logprobs == pytest.approx(answer.logprobs, abs=10 * TOLERANCE)
        assert plain[name].logprobs != pytest.approx(answer.logprobs, abs=0.05)


def test_a_shared_document_is_computed_once(vllm: Any) -> None:
    text = DOCUMENT.replace("Lindholm", "Vinterby")
    asked = [Request(f"q{n}", f"{text}\nQuestion {n}:", group="g") for n in range(4)]
    answers = generated(vllm, asked, Sampling(temperature=0, top_p=1, max_new_tokens=2))
    cached = [answers[request.id].n_cached_tokens for request in asked]
    shared = len(vllm.encoder.tokenizer.encode(text)) // 32 * 32
    assert cached == [0, shared, shared, shared]


def test_scores_read_the_cache_and_stay_right(vllm: Any) -> None:
    text = f"{DOCUMENT.replace('Lindholm', 'Norrvik')}\nAnswer:"
    said = (
        " Aina Berg built the tower in 1742, and she was born in Visby, which lies on an island."
        * 2
    )
    asked = [
        Request("first", text, continuation=" Aina"),
        Request("second", text, continuation=" Visby"),
        Request("third", text, continuation=said),
        Request("begins like the third", text, continuation=f"{said} So it is."),
    ]
    together = scored(vllm, asked)
    assert (together["third"].n_cached_tokens or 0) > 0
    vllm.engine.reset_prefix_cache()
    for request in asked:
        vllm.engine.reset_prefix_cache()
        alone = scored(vllm, [request])[request.id]
        assert alone.n_cached_tokens == 0
        assert together[request.id].logprobs == pytest.approx(alone.logprobs, abs=TOLERANCE)


def test_what_does_not_fit_is_named_and_the_rest_answered(vllm: Any) -> None:
    answers = generated(vllm, [Request("long", "word " * 3000), QUESTIONS[2]], GREEDY)
    assert answers["long"].status == "too_long"
    assert "2048" in answers["long"].detail
    assert answers["plain"].status in ("ok", "length")


def test_a_schema_that_cannot_be_compiled_ends_it_before_work(vllm: Any) -> None:
    schema = json.dumps({"type": "integer", "multipleOf": 3})
    asked = [QUESTIONS[2], Request("odd", turn("x"), schema=schema)]
    with pytest.raises(UserError, match="cannot hold answers to a schema"):
        next(iter(vllm.generate(asked, GREEDY)))
    assert not vllm.engine.has_unfinished_requests()


def test_stopping_early_leaves_nothing_under_way(vllm: Any) -> None:
    arriving = vllm.generate(
        [Request(f"e{n}", f"{n} and") for n in range(8)],
        Sampling(temperature=0, top_p=1, max_new_tokens=8),
    )
    next(arriving)
    arriving.close()
    assert not vllm.engine.has_unfinished_requests()
    assert generated(vllm, [QUESTIONS[2]], GREEDY)["plain"].text
