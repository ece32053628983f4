from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.benchmarks.hotpotqa import join_sentences, paragraph, sentence_span
from stages.benchmarks.passages import Passage
from stages.runtime.rejected import Rejected

SENTENCES = st.lists(st.text(st.sampled_from("ab. \u00a0\u4f60"), max_size=6), max_size=6)


@given(SENTENCES)
def test_each_sentence_is_found_in_the_joined_text(sentences: list[str]) -> None:
    text = join_sentences(sentences)
    assert text is not None
    for number, sentence in enumerate(sentences):
        start, end = sentence_span(sentences, number)
        if sentence.strip():
            assert text[start:end] == sentence.strip()
        else:
            assert start == end


@given(SENTENCES)
def test_spans_are_in_order(sentences: list[str]) -> None:
    spans = [sentence_span(sentences, n) for n, s in enumerate(sentences) if s.strip()]
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


@pytest.mark.parametrize("value", [None, [], ["A"], [1, ["One."]], ["A", "One."], ["A", [1]]])
def test_what_is_no_paragraph(value: object) -> None:
    made = paragraph(value, "q.json[0].context[0]")
    assert isinstance(made, Rejected)
    assert made.rule == "malformed_passage"


def test_paragraph() -> None:
    assert paragraph(["A", ["One.", " Two."]], "s") == Passage("A", "One. Two.", "s")
