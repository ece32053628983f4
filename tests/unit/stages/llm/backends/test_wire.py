"""OpenAI's protocol: whatever a server says is an answer, or is told to be malformed."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stages.llm.answer import Answer
from stages.llm.backends import wire
from stages.llm.backends.faults import Malformed

JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


def near(**fields: Any) -> Any:
    """Mappings that may have these fields, with what belongs there or with anything else."""
    return st.fixed_dictionaries(
        {}, optional={name: JSON | value for name, value in fields.items()}
    )


CHOICES = near(
    finish_reason=st.sampled_from(["stop", "length", "content_filter"]),
    text=st.text(max_size=3),
    message=near(content=st.text(max_size=3), refusal=st.none()),
    prompt_logprobs=st.lists(st.none() | st.dictionaries(st.just("7"), near(logprob=st.floats()))),
    logprobs=near(
        token_logprobs=st.lists(st.floats()),
        text_offset=st.lists(st.integers(0, 4)),
        top_logprobs=st.lists(st.dictionaries(st.just("token_id:7"), st.floats())),
    ),
)
USAGE = near(
    prompt_tokens=st.integers(), completion_tokens=st.integers(),
    prompt_tokens_details=near(cached_tokens=st.integers()),
)  # fmt: skip
RESPONSES = JSON | near(choices=st.lists(JSON | CHOICES, max_size=2), usage=USAGE)


@given(RESPONSES)
def test_any_response_is_an_answer_or_malformed(response: Any) -> None:
    for read in (
        lambda: wire.generated(response),
        lambda: wire.scored(response, [3, 7], 1),
        lambda: wire.echoed(response, "ab", "cd"),
    ):
        try:
            answer = read()
        except Malformed:
            continue
        assert isinstance(answer, Answer)
        valued = answer.text is not None or answer.logprobs is not None
        assert valued == (answer.status in ("ok", "length"))


@given(RESPONSES)
def test_the_likeliest_tokens_are_by_id_or_malformed(response: Any) -> None:
    try:
        found, counts = wire.likeliest(response)
    except Malformed:
        return
    assert all(isinstance(token, int) for token in found)
    assert set(counts) <= {"n_prompt_tokens", "n_cached_tokens"}


def echo(values: list[float | None], offsets: list[int]) -> dict[str, Any]:
    logprobs = {"token_logprobs": values, "text_offset": offsets}
    return {"choices": [{"logprobs": logprobs, "finish_reason": "length"}]}


def test_an_echo_is_cut_where_the_continuation_stands() -> None:
    # "ab" + "cde", then one token that was generated.
    found = wire.echoed(echo([None, -0.1, -0.2, -0.3, -9.0], [0, 1, 2, 4, 5]), "ab", "cde")
    assert found.logprobs == (-0.2, -0.3)


def test_a_token_across_the_cut_is_told() -> None:
    found = wire.echoed(echo([None, -0.1, -0.2], [0, 1, 3]), "ab", "cde")
    assert found.status == "malformed" and "spans the end of the prompt" in found.detail
