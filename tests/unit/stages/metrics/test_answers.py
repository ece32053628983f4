"""Answer metrics: equality of normal forms and token F1."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import UserError
from stages.metrics.answers import METRICS, answer_score, exact_match, normalise, token_f1

WORDS = st.text(st.characters(categories=("L", "N")), min_size=1, max_size=8)
ANSWERS = st.lists(WORDS, min_size=1, max_size=5).map(" ".join)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The Hague", "hague"),
        ("the Bank of an Island", "bank of island"),
        ("A", "a"),
        ("The", "the"),
        ("Serie A", "serie a"),
        ("\u041c\u043e\u0441\u043a\u0432\u0430.", "\u043c\u043e\u0441\u043a\u0432\u0430"),
        (
            "\u0627\u0644\u0642\u0627\u0647\u0631\u0629",
            "\u0627\u0644\u0642\u0627\u0647\u0631\u0629",
        ),
        ("\u300c\u5317\u4eac\u300d", "\u5317\u4eac"),
    ],
)
def test_normalise(text: str, normal: str) -> None:
    assert normalise(text) == normal


@given(ANSWERS)
def test_normalise_never_empties_an_answer_and_is_idempotent(text: str) -> None:
    assert normalise(text)
    assert normalise(normalise(text)) == normalise(text)


def test_exact_match_takes_any_gold() -> None:
    assert exact_match("the Paris.", ["London", "PARIS"]) == 1.0
    assert exact_match("Rome", ["London", "Paris"]) == 0.0


@pytest.mark.parametrize("metric", sorted(METRICS))
@pytest.mark.parametrize("prediction", ["", "  ", "...", "e", "The"])
def test_a_prediction_with_no_content_scores_nothing(metric: str, prediction: str) -> None:
    # QwenLong-L1's two-way containment gives "The" and "e" a 1 (methods.md 6, defect 6)
    assert answer_score(metric, prediction, ["The Seine"]) == 0.0


def test_numbers_keep_their_value() -> None:
    assert exact_match("1,000", ["1000"]) == 1.0
    assert exact_match("35", ["3.5"]) == 0.0
    assert exact_match("5", ["-5"]) == 0.0


def test_token_f1_by_hand() -> None:
    # 2 common of 3 and 2 tokens: P 2/3, R 1
    assert token_f1("new york city", ["New York"]) == pytest.approx(0.8)
    # a repeated token counts as often as the gold has it: P 1/3, R 1
    assert token_f1("rome rome rome", ["Rome"]) == pytest.approx(0.5)
    assert token_f1("x", ["y", "x y"]) == pytest.approx(2 / 3)


def test_token_f1_reads_characters_where_there_are_no_spaces() -> None:
    assert token_f1("\u5317\u4eac\u5e02", ["\u5317\u4eac"]) == pytest.approx(0.8)


@pytest.mark.parametrize("metric", sorted(METRICS))
@pytest.mark.parametrize("golds", [[], [""], ["Paris", " ?! "], "Paris"])
def test_a_useless_gold_is_an_error(metric: str, golds: list[str]) -> None:
    with pytest.raises(ValueError, match="gold"):
        answer_score(metric, "Paris", golds)


def test_an_unknown_metric_names_the_allowed_ones() -> None:
    with pytest.raises(UserError, match="exact_match, token_f1"):
        answer_score("bleu", "a", ["a"])


@given(ANSWERS, st.lists(ANSWERS, min_size=1, max_size=3))
def test_scores_are_bounded_and_a_gold_scores_one(prediction: str, golds: list[str]) -> None:
    for metric in METRICS:
        assert 0.0 <= answer_score(metric, prediction, golds) <= 1.0
        assert answer_score(metric, golds[-1], golds) == 1.0
    assert exact_match(prediction, golds) <= token_f1(prediction, golds)
