"""Combinators against the vectors of methods.md section 5."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.rewards.combine import positive_only, weighted_sum
from stages.rewards.group import divide_by_group_max

UNIT = st.floats(0, 1)


@pytest.mark.parametrize(
    ("outcomes", "rubrics", "expected"),
    [
        ([1, 1, 0, 0], [0.8, 0.4, 0.6, 0.0], [1.0, 0.85, 0.0, 0.0]),
        ([1, 1, 0, 1], [0.8, 0.4, 1.0, 0.0], [0.94, 0.82, 0.0, 0.7]),
    ],
)
def test_longtracerl_vectors(
    outcomes: list[float], rubrics: list[float], expected: list[float]
) -> None:
    scaled = divide_by_group_max(rubrics)
    got = [positive_only(o, r, 0.3) for o, r in zip(outcomes, scaled, strict=True)]
    assert got == pytest.approx(expected)


def test_without_the_group_step_it_is_carrs_code() -> None:
    assert [positive_only(1.0, r, 0.3) for r in (0.8, 0.4)] == pytest.approx([0.94, 0.82])


@given(UNIT, UNIT, UNIT)
def test_positive_only_is_bounded_and_never_pays_for_a_wrong_answer(
    outcome: float, rubric: float, eta: float
) -> None:
    assert 0.0 <= positive_only(outcome, rubric, eta) <= 1.0 + 1e-12
    assert positive_only(0.0, rubric, eta) == 0.0
    assert positive_only(1.0, rubric, eta) >= positive_only(1.0, 0.0, eta)


@pytest.mark.parametrize(
    ("outcome", "eta"), [(-0.1, 0.3), (float("nan"), 0.3), (1.0, 1.1), (1.0, -0.1)]
)
def test_positive_only_rejects(outcome: float, eta: float) -> None:
    with pytest.raises(ValueError, match="must"):
        positive_only(outcome, 0.5, eta)


def test_weighted_sum() -> None:
    parts = {"a": 1.0, "b": 0.5, "logged": 9.0}
    assert weighted_sum(parts, {"a": 2.0, "b": -1.0}) == 1.5
    with pytest.raises(ValueError, match=r"\['c'\].*\['a', 'b', 'logged'\]"):
        weighted_sum(parts, {"c": 1.0})
