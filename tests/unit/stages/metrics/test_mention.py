"""Names in texts: whole words, in any script, and what is left without them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.metrics.mention import name_form, occurs, without
from stages.metrics.text import fold

WORDS = st.lists(st.sampled_from(["new", "york", "old", "a", "北京", "的"]), max_size=8)


@given(WORDS, WORDS.filter(bool))
def test_a_name_is_found_where_its_words_stand_together(words: list[str], name: list[str]) -> None:
    text, form = fold(" ".join(words)), name_form(" ".join(name))
    if all(word.isascii() for word in [*words, *name]):
        wanted = form.split()
        there = any(words[i : i + len(wanted)] == wanted for i in range(len(words)))
        assert occurs(form, text) == there
    assert not occurs(form, text) or occurs(form, text, "substring")


@given(st.text("ab 北京", max_size=12), st.text("ab 北京", min_size=1, max_size=4))
def test_without_it_the_text_does_not_name_it_and_keeps_the_rest(text: str, name: str) -> None:
    folded, form = fold(text), name_form(name)
    rest = without(form, folded)
    if not occurs(form, folded):
        assert rest == folded
    else:
        assert len(rest) < len(folded) + 1 and not occurs(form, rest)


@pytest.mark.parametrize(
    ("text", "name", "left"),
    [
        ("mexico city is in mexico", "Mexico City", "  is in mexico"),
        ("the hague and hague", "The Hague", "the   and  "),
        ("annual", "Ann", "annual"),
        ("anything", "?!", "anything"),
    ],
)
def test_examples(text: str, name: str, left: str) -> None:
    assert without(name_form(name), text) == left
