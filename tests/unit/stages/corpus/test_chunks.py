from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.corpus._chunks import chunk_spans, sentence_spans


def words(text: str) -> int:
    return len(re.findall(r"\w+|[^\w\s]", text))


def letters(text: str) -> int:
    return len(re.sub(r"\s", "", text))


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n ", []),
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("He said “Go.” She went.", ["He said “Go.”", "She went."]),
        ("Dr. Ada met J. R. Roe. They left.", ["Dr. Ada met J. R. Roe.", "They left."]),
        ("In the U.S. Army it is so. Yes.", ["In the U.S. Army it is so.", "Yes."]),
        ("It is approx. 3.5 m long. Right.", ["It is approx. 3.5 m long.", "Right."]),
        ("They came etc. and left. End.", ["They came etc. and left.", "End."]),
        ("Wait... What? No.", ["Wait...", "What?", "No."]),
        ("A title\n\nA text. More", ["A title", "A text.", "More"]),
        ("\u4f60\u597d\u3002\u518d\uff01\u597d", ["\u4f60\u597d\u3002", "\u518d\uff01", "\u597d"]),
        ("It is Saint George's. Next is option b. End.",
         ["It is Saint George's.", "Next is option b.", "End."]),
        ("No end but a.b.c and x!y", ["No end but a.b.c and x!y"]),
    ],
)  # fmt: skip
def test_sentences(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


def test_packs_sentences_up_to_the_tokens() -> None:
    text = "A b. C d. E f. G h."
    assert chunk_spans(text, words, 6, None) == [(0, 9, 6), (10, 19, 6)]


def test_packs_sentences_up_to_their_number() -> None:
    text = "A b. C d. E f."
    assert [text[s:e] for s, e, _ in chunk_spans(text, words, 99, 1)] == ["A b.", "C d.", "E f."]


def test_long_sentence_is_cut_at_words_and_long_word_anywhere() -> None:
    text = "one two three four five six"
    assert [text[s:e] for s, e, _ in chunk_spans(text, words, 4, None)] == [
        "one two three four", "five six",
    ]  # fmt: skip
    assert [n for *_, n in chunk_spans("x" * 10, letters, 4, None)] == [4, 4, 2]


def test_counts_again_where_the_seam_costs_tokens() -> None:
    def seam(text: str) -> int:
        return words(text) + text.count(". ")

    text = "Aa. Bb. Cc."
    assert chunk_spans(text, seam, 4, None) == [(0, 3, 2), (4, 7, 2), (8, 11, 2)]
    assert chunk_spans(text, seam, 5, None) == [(0, 7, 5), (8, 11, 2)]


def test_no_chunk_without_tokens() -> None:
    def no_stars(text: str) -> int:
        return words(text.replace("*", ""))

    text = "*\n\nOne two.\n\n*\n\nThree."
    chunks = chunk_spans(text, no_stars, 4, 1)
    assert all(tokens > 0 for *_, tokens in chunks)
    assert chunks[0][0] == 0 and chunks[-1][1] == len(text)


def test_time_is_linear() -> None:
    for text in ("." * 200_000 + "x", "a" * 50_000, "\n" * 200_000, "a. " * 20_000, "J." * 50_000):
        chunk_spans(text, len, 64, None)


SIGNS = list("abJ .!?\n\t*é\u3002\u4f60\u2026'\")\u00a0\U0001f600")
texts = st.text(st.sampled_from(SIGNS), max_size=200)


@given(
    text=texts | st.text(max_size=200),
    count=st.sampled_from([words, letters, len]),
    max_tokens=st.integers(1, 12),
    max_sentences=st.none() | st.integers(1, 3),
)
def test_chunks_tile_the_text(text, count, max_tokens, max_sentences) -> None:  # type: ignore[no-untyped-def]
    chunks = chunk_spans(text, count, max_tokens, max_sentences)
    end = 0
    for start, stop, tokens in chunks:
        assert start >= end and stop > start
        assert text[end:start].strip() == ""
        assert not text[start].isspace() and not text[stop - 1].isspace()
        assert tokens == count(text[start:stop])
        assert tokens <= max_tokens or stop - start == 1
        end = stop
    assert text[end:].strip() == ""
    if max_sentences is not None and count is not words:  # `words` can count nothing
        assert len(chunks) * max_sentences >= len(sentence_spans(text))


@given(texts)
def test_sentences_tile_the_text(text: str) -> None:
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())
