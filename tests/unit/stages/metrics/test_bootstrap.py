"""Bootstrap intervals: exact cases, coverage, clusters, and the empty ends."""

from __future__ import annotations

import dataclasses
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.metrics.bootstrap import Interval, mean_interval, paired_difference

FLOATS = st.floats(-1e6, 1e6)


def test_too_little_data_is_typed_not_nan() -> None:
    assert mean_interval([], 0) == Interval(None, None, None, 0)
    assert mean_interval([0.25], 0) == Interval(0.25, None, None, 1)
    assert mean_interval([0.0, 1.0], 0, clusters=["q", "q"]) == Interval(0.5, None, None, 2)
    assert paired_difference([], [], 0) == Interval(None, None, None, 0)


@given(FLOATS, st.integers(2, 30), st.integers(0, 9))
def test_constant_data_has_an_interval_of_no_width(value: float, n: int, seed: int) -> None:
    assert mean_interval([value] * n, seed, resamples=20) == Interval(value, value, value, n)


@settings(max_examples=50)
@given(st.lists(FLOATS, min_size=2, max_size=30), st.integers(0, 9), st.booleans())
def test_interval_lies_within_the_data(values: list[float], seed: int, clustered: bool) -> None:
    clusters = [i // 2 for i in range(len(values))] if clustered else None
    interval = mean_interval(values, seed, resamples=50, clusters=clusters)
    assert interval.mean == pytest.approx(np.mean(values), abs=1e-6)
    if interval.low is not None and interval.high is not None:
        slack = 1e-6
        assert min(values) - slack <= interval.low <= interval.high <= max(values) + slack
        assert all(np.isfinite(x) for x in dataclasses.astuple(interval))


def test_same_seed_same_interval_in_any_row_order() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(size=40)
    questions = np.arange(40) // 4
    order = rng.permutation(40)
    once = mean_interval(values, 1, clusters=questions.tolist())
    again = mean_interval(values[order], 1, clusters=questions[order].tolist())
    assert once == again
    assert once != mean_interval(values, 2, clusters=questions.tolist())
    assert mean_interval(values, 1) == mean_interval(values[order], 1)


def test_coverage_is_near_the_level() -> None:
    rng = np.random.default_rng(0)
    hits = 0
    for seed in range(300):
        interval = mean_interval(rng.normal(5.0, 2.0, size=40), seed, level=0.9, resamples=300)
        assert interval.low is not None
        assert interval.high is not None
        hits += interval.low <= 5.0 <= interval.high
    assert 0.84 <= hits / 300 <= 0.94


def test_clusters_keep_the_answers_of_a_question_together() -> None:
    rng = np.random.default_rng(1)
    per_question = rng.integers(0, 2, size=50).astype(float)
    values = np.repeat(per_question, 8)
    questions = [f"q{i}" for i in np.repeat(np.arange(50), 8)]

    def width(interval: Interval) -> float:
        assert interval.low is not None
        assert interval.high is not None
        return interval.high - interval.low

    clustered = width(mean_interval(values, 0, clusters=questions))
    assert clustered == pytest.approx(width(mean_interval(per_question, 0)), rel=0.05)
    assert clustered > 2.4 * width(mean_interval(values, 0))  # sqrt(8) = 2.8 in theory


def test_unequal_clusters_weigh_by_their_values() -> None:
    interval = mean_interval([1.0, 1.0, 1.0, 0.0], 0, clusters=["a", "a", "a", "b"])
    assert interval == Interval(0.75, 0.0, 1.0, 4)


def test_a_paired_difference_ignores_what_both_share() -> None:
    rng = np.random.default_rng(2)
    hard = rng.normal(size=100) * 10
    interval = paired_difference(hard + 0.5, hard, 0)
    assert interval.low == pytest.approx(0.5)
    assert interval.high == pytest.approx(0.5)
    assert paired_difference([1.0, 0.0], [0.0, 0.0], 0).mean == 0.5


def test_ten_thousand_values_stay_small() -> None:
    values = np.random.default_rng(0).random(10_000)
    tracemalloc.start()
    interval = mean_interval(values, 0, resamples=2000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64e6  # 10,000 x 2,000 draws at once would be 160 MB and as much again
    assert interval.low is not None
    assert interval.high is not None
    assert interval.high - interval.low == pytest.approx(2 * 1.96 * values.std() / 100, rel=0.1)


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([1.0, float("nan")], {}, "finite"),
        ([1.0, float("inf")], {}, "finite"),
        ([1.0], {"level": 1.0}, "level"),
        ([1.0], {"level": 0.0}, "level"),
        ([1.0], {"resamples": 0}, "resamples"),
        ([1.0], {"clusters": ["a", "b"]}, "cluster"),
        ([[1.0]], {}, "dimension"),
    ],
)
def test_bad_input_is_an_error(values: list[float], options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mean_interval(values, 0, **options)


def test_pairs_must_match() -> None:
    with pytest.raises(ValueError, match="shape"):
        paired_difference([1.0, 2.0], [1.0], 0)
    with pytest.raises(ValueError, match="finite"):
        paired_difference([float("inf")], [float("inf")], 0)
