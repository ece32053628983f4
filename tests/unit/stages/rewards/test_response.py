"""Reading a response: every status, citations, and no text that breaks it."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.rewards.response import Response, parse_response

PIECES = st.sampled_from(
    ["<think>", "</think>", "Answer:", "answer :", "[1]", "[ 2 , 3]", "[", "]", "\n", " ", "x", "."]
)
ANY_TEXT = st.text(st.characters(exclude_categories=())) | st.lists(PIECES).map("".join)
REASONS = st.sampled_from(["stop", "length", "abort", ""])


def test_a_full_response() -> None:
    text = (
        "<think> hmm [9] Answer: no </think> A is in B [3]. B is in C [1][3].\nAnswer: Paris [3]."
    )
    assert parse_response(text, "stop") == Response(
        status="ok",
        thinking="hmm [9] Answer: no",
        content="A is in B [3]. B is in C [1][3].\nAnswer: Paris [3].",
        answer="Paris",
        citations=(3, 1, 3, 3),
    )


@pytest.mark.parametrize(
    ("text", "reason", "status"),
    [
        ("a </think> Answer: x", "stop", "ok"),
        ("a </think> Answer: x", "length", "truncated"),
        ("a </think> Answer: x", "abort", "truncated"),
        ("", "length", "truncated"),
        ("", "stop", "empty"),
        (" \n", "stop", "empty"),
        ("a </think> \n", "stop", "empty"),
        ("Answer: x", "stop", "no_think_end"),
        ("a </think> b </think> Answer: x", "stop", "many_think_ends"),
        ("a </think> x", "stop", "no_answer"),
        ("a </think> Answer:", "stop", "no_answer"),
        ("a </think> Answer: [3].", "stop", "no_answer"),
        ("a </think> Answer:\nx", "stop", "no_answer"),
        ("Answer: x </think> y", "stop", "no_answer"),
        ("a </think> preanswer: x", "stop", "no_answer"),
    ],
)
def test_status(text: str, reason: str, status: str) -> None:
    assert parse_response(text, reason).status == status


@pytest.mark.parametrize(
    ("text", "reason", "status", "content"),
    [
        ("A is B [2]. Answer: x", "stop", "ok", "A is B [2]. Answer: x"),
        ("<think> a </think> Answer: x", "stop", "ok", "Answer: x"),
        ("a </think> b </think> Answer: x", "stop", "many_think_ends", ""),
        ("Answer: x", "length", "truncated", ""),
        (" ", "stop", "empty", ""),
        ("x", "stop", "no_answer", "x"),
    ],
)
def test_where_no_thinking_was_asked_for(text: str, reason: str, status: str, content: str) -> None:
    response = parse_response(text, reason, thinking=False)
    assert (response.status, response.content) == (status, content)


@given(ANY_TEXT, REASONS)
def test_asking_for_no_thinking_only_adds_what_is_read(text: str, reason: str) -> None:
    asked, without = parse_response(text, reason), parse_response(text, reason, False)
    assert asked.status == "no_think_end" or replace(asked, thinking="") == replace(
        without, thinking=""
    )


@pytest.mark.parametrize(
    ("tail", "answer"),
    [
        ("Answer : Paris", "Paris"),
        ("answer: paris", "paris"),
        ("Answer\uff1a \u5317\u4eac\u3002", "\u5317\u4eac"),
        ("**Answer:** **Paris**", "Paris"),
        ('Answer: "Paris".', "Paris"),
        ("Answer: Paris [1] [2, 3] .", "Paris"),
        ("Answer: Paris [ 1 ] .", "Paris"),
        ("Answer: Rome [1] and Paris [2]", "Rome [1] and Paris"),
        ("Answer: Rome\nAnswer: Paris", "Paris"),
        ("Answer: Paris\r\nmore words", "Paris"),
        ("Answer: C++", "C++"),
        ("Answer: f[x]", "f[x]"),
        ("Answer: -5", "-5"),
    ],
)
def test_answer(tail: str, answer: str) -> None:
    assert parse_response(f"t </think> {tail}", "stop").answer == answer


def test_citations_of_a_word_level_tokenizer_and_of_lists() -> None:
    response = parse_response("t </think> a [ 3 ] b [1, 2;2] c [x] [ ] Answer : y", "stop")
    assert response.citations == (3, 1, 2, 2)


def test_a_number_too_long_for_an_id_is_no_citation() -> None:
    assert parse_response(f"t </think> [{'1' * 5000}] Answer: y", "stop").citations == ()


@given(ANY_TEXT, REASONS)
def test_never_raises_and_keeps_its_promises(text: str, reason: str) -> None:
    response = parse_response(text, reason)
    assert response.ok == bool(response.answer)
    assert response.answer in response.content
    if response.status in ("truncated", "no_think_end", "many_think_ends", "empty"):
        assert (response.content, response.citations) == ("", ())
    if response.ok:
        assert reason == "stop"
        assert text.count("</think>") == 1


@given(ANY_TEXT.filter(lambda text: "</think>" not in text))
def test_thinking_never_counts(thinking: str) -> None:
    response = parse_response(thinking + "</think> b [2] Answer: x", "stop")
    assert (response.answer, response.citations) == ("x", (2,))


@pytest.mark.parametrize("noise", ["[1]", "[", ".", " ", "[1,", "answer", "answer:", "]"])
def test_degenerate_text_is_read_in_linear_time(noise: str) -> None:
    text = "t </think> Answer: x" + noise * 60_000
    started = time.process_time()
    parse_response(text, "stop")
    parse_response(text + "y", "stop")
    assert time.process_time() - started < 2.0
