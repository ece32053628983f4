"""Entity recall: word boundaries, scripts, and the paper's substring rule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.rewards.entity import Boundary, entity_recall

NAMES = st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=6)
BOUNDARIES: list[Boundary] = ["word", "substring"]
MOSCOW, KIEV = "\u041c\u043e\u0441\u043a\u0432\u0430", "\u041a\u0438\u0435\u0432"
CAIRO = "\u0627\u0644\u0642\u0627\u0647\u0631\u0629"


def test_ann_is_not_in_annual() -> None:
    assert entity_recall(["Ann"], "the annual report") == 0.0
    assert entity_recall(["Ann"], "Hannah") == 0.0
    assert entity_recall(["Ann"], "the annual report", "substring") == 1.0
    assert entity_recall(["Ann"], "annual, says Ann's sister") == 1.0  # a later occurrence


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_other_scripts_are_neither_lost_nor_free(boundary: Boundary) -> None:
    text = f"{MOSCOW} 1980, {CAIRO}."
    assert entity_recall([MOSCOW, CAIRO], text, boundary) == 1.0
    assert entity_recall([KIEV], text, boundary) == 0.0
    assert entity_recall([MOSCOW], "nothing of the kind", boundary) == 0.0


def test_scripts_without_spaces_match_inside_a_run() -> None:
    assert entity_recall(["\u5317\u4eac"], "\u6211\u5728\u5317\u4eac\u5de5\u4f5c") == 1.0
    assert entity_recall(["\uc11c\uc6b8"], "\uc11c\uc6b8\uc740 \ud06c\ub2e4") == 1.0
    assert entity_recall(["2024"], "\u57282024\u5e74") == 1.0
    assert entity_recall(["2024"], "12024") == 0.0


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_an_entity_of_punctuation_is_never_a_hit(boundary: Boundary) -> None:
    assert entity_recall(["?!"], "really ?!", boundary) == 0.0
    assert entity_recall(["?!", "Rome"], "Rome ?!", boundary) == 0.5


def test_forms_of_a_name() -> None:
    assert entity_recall(["The Hague"], "in Hague town") == 1.0
    assert entity_recall(["Serie A"], "a Serie A club") == 1.0
    assert entity_recall(["Jean-Paul Sartre"], "Jean - Paul SARTRE") == 1.0
    assert entity_recall(["C"], "written in C++") == 0.0
    assert entity_recall(["3"], "3.5 km") == 0.0


def test_duplicates_count_once() -> None:
    assert entity_recall(["Rome", "rome!", "Oslo"], "Rome") == 0.5


def test_bad_input_is_an_error() -> None:
    with pytest.raises(ValueError, match="without gold entities"):
        entity_recall([], "text")
    with pytest.raises(ValueError, match="one string"):
        entity_recall("Rome", "text")
    with pytest.raises(ValueError, match="boundary"):
        entity_recall(["Rome"], "text", "line")  # type: ignore[arg-type]


@given(NAMES, st.text(max_size=40))
def test_bounds_order_and_strictness(names: list[str], text: str) -> None:
    word, loose = (entity_recall(names, text, boundary) for boundary in BOUNDARIES)
    assert 0.0 <= word <= loose <= 1.0
    assert entity_recall(names[::-1] + names, text) == word


@given(st.lists(st.sampled_from(["Rome", "Oslo", MOSCOW, "\u5317\u4eac"]), min_size=1))
def test_a_text_that_names_all_scores_one(names: list[str]) -> None:
    assert entity_recall(names, ", ".join(names)) == 1.0
