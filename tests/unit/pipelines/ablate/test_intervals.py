from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.ablate.intervals import SEEDS_CAP, mean_interval, quantile, seeds_to_tell, usable

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8)


def test_three_values_by_hand() -> None:
    found = mean_interval([0.50, 0.52, 0.54])
    # sd 0.02, t(0.975, 2) = 4.30265, half width 4.30265 * 0.02 / sqrt(3)
    assert found.sd == pytest.approx(0.02)
    assert found.estimate.value == pytest.approx(0.52)
    assert found.estimate.low == pytest.approx(0.52 - 0.0496828, abs=1e-6)
    assert found.estimate.high == pytest.approx(0.52 + 0.0496828, abs=1e-6)
    assert found.estimate.n == 3


def test_quantiles_of_the_tables() -> None:
    assert quantile(2) == pytest.approx(12.7062, abs=1e-4)
    assert quantile(3) == pytest.approx(4.30265, abs=1e-5)
    assert quantile(11) == pytest.approx(2.22814, abs=1e-5)


def test_below_two_values_there_is_no_interval() -> None:
    none, one = mean_interval([]), mean_interval([0.3])
    assert (none.estimate.value, none.estimate.low, none.estimate.n) == (None, None, 0)
    assert (one.estimate.value, one.estimate.low, one.estimate.high) == (0.3, None, None)
    assert none.sd is None and one.sd is None and not one.constant


@given(st.floats(-1e150, 1e150), st.integers(2, 6))
def test_equal_values_have_an_interval_without_width(value: float, n: int) -> None:
    found = mean_interval([value] * n)
    assert found.constant
    assert found.estimate.low == found.estimate.value == found.estimate.high == value


def test_rounding_is_not_spread() -> None:
    found = mean_interval([0.3 - 0.1, 0.2, 0.7 - 0.5], scale=0.7)
    assert found.constant
    noise = mean_interval([1e-17, -1e-17], scale=0.5)
    assert noise.constant and noise.estimate.value == 0.0


@given(VALUES, st.randoms())
def test_the_interval_holds_the_mean_in_any_order(values: list[float], random: object) -> None:
    found = mean_interval(values)
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert mean_interval(shuffled) == found
    estimate = found.estimate
    assert estimate.value is not None
    if len(values) > 1:
        assert estimate.low is not None and estimate.high is not None
        assert estimate.low <= estimate.value <= estimate.high


def test_seeds_to_tell_by_hand() -> None:
    # sd 0.0755: 26 seeds give 0.0305, 27 give 0.0299
    assert seeds_to_tell(0.03, math.sqrt(0.0057)) == 27
    assert seeds_to_tell(-0.03, math.sqrt(0.0057)) == 27
    assert seeds_to_tell(0.0, 1.0) is None
    assert seeds_to_tell(1e-6, 1.0) == SEEDS_CAP + 1
    assert seeds_to_tell(100.0, 1.0) == 2


@given(st.floats(0.05, 2.0), st.floats(0.01, 1.0))
def test_seeds_to_tell_is_the_first_that_tells(difference: float, sd: float) -> None:
    needed = seeds_to_tell(difference, sd)
    assert needed is not None

    def half(n: int) -> float:
        return quantile(n) * sd / math.sqrt(n)

    assert needed > SEEDS_CAP or half(needed) < difference
    assert needed == 2 or half(needed - 1) >= difference


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None, "0.5", 1e200, 10**400])
def test_not_usable(value: object) -> None:
    assert not usable(value)


def test_usable() -> None:
    assert usable(0.5) and usable(3) and usable(-1e150)
