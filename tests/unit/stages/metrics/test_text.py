"""The comparable form of a text, in any script."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.metrics.text import fold, is_unspaced, tokens

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("  The\tBeatles!\n", "the beatles"),
        ("Jean-Paul", "jean paul"),
        ("Jean - Paul", "jean paul"),
        ("O\u2019Brien", "o brien"),
        ("O ' Brien", "o brien"),
        ("\uff26\uff35\uff2c\uff2c", "full"),
        ("Stra\u00dfe", "strasse"),
        ("1,234,567", "1234567"),
        ("1, 2,3", "1 2 3"),
        ("3.5.", "3.5"),
        (".5", "0.5"),
        ("-5", "-5"),
        ("\u22125", "-5"),
        ("1939\u201345", "1939 45"),
        ("C++ & $5", "c++ $5"),
        ("\u0662\u0660\u0662\u0664", "2024"),
        ("soft\u00adhyphen", "softhyphen"),
        ("e\u0301", "\u00e9"),
        ("?!", ""),
    ],
)
def test_fold(text: str, folded: str) -> None:
    assert fold(text) == folded


@given(ANY_TEXT)
def test_folding_twice_changes_nothing(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@given(st.text(st.characters(categories=("L", "N")), min_size=1))
def test_letters_and_digits_of_any_script_survive(text: str) -> None:
    assert fold(text)


def test_tokens_are_words_or_characters_by_script() -> None:
    assert tokens("in 2024\u5e74 \u5317\u4eac city") == [
        "in",
        "2024",
        "\u5e74",
        "\u5317",
        "\u4eac",
        "city",
    ]
    assert tokens("\u043c\u043e\u0441\u043a\u0432\u0430") == [
        "\u043c\u043e\u0441\u043a\u0432\u0430"
    ]


def test_scripts_without_spaces() -> None:
    assert all(is_unspaced(char) for char in "\u5317\u3042\u30ab\uc11c\u0e01")
    assert not any(is_unspaced(char) for char in "a\u0416\u0639\u05d0\u09055 ")
