"""Student's t for a handful of seeds: the interval of a mean, and how many seeds would tell.

The bootstrap of `stages.metrics` is for the many questions inside one run; with 2 to 10 seeds it
gives intervals that are far too narrow, so means over seeds use Student's t with n - 1 degrees of
freedom. The result does not depend on the order of the values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.report.estimates import Estimate

LEVEL = 0.95
SEEDS_CAP = 1000
LARGEST = 1e150
"""Values beyond this are not averaged: their squares would overflow."""
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Sample:
    """What `n` values say about their mean. `sd` is None below two values, 0.0 if all are equal."""

    estimate: Estimate
    sd: float | None

    @property
    def constant(self) -> bool:
        return self.sd == 0.0


def usable(value: object) -> bool:
    """Whether a value can be averaged: a number that is neither NaN nor out of range."""
    return isinstance(value, int | float) and abs(value) <= LARGEST


def mean_interval(values: Sequence[float], scale: float = 0.0) -> Sample:
    """The mean with its 95 % t interval; below two values there is a mean (or none), no interval.

    Values that differ by no more than the rounding of numbers as large as `scale` (or as the
    values) count as equal. The interval then has no width.
    """
    n = len(values)
    if n == 0:
        return Sample(Estimate(None, None, None, 0), None)
    ordered = sorted(float(value) for value in values)
    tolerance = _ROUNDING * max(scale, abs(ordered[0]), abs(ordered[-1]))
    equal = ordered[-1] - ordered[0] <= tolerance
    mean = ordered[n // 2] if equal else math.fsum(ordered) / n
    if equal and abs(mean) <= tolerance:
        mean = 0.0
    if n == 1:
        return Sample(Estimate(mean, None, None, 1), None)
    if equal:
        return Sample(Estimate(mean, mean, mean, n), 0.0)
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in ordered) / (n - 1))
    half = quantile(n) * sd / math.sqrt(n)
    return Sample(Estimate(mean, mean - half, mean + half, n), sd)


def quantile(n: int) -> float:
    """The t quantile of a two-sided 95 % interval of `n` values: 12.71 for 2, 4.30 for 3."""
    from scipy.stats import t

    return float(t.ppf((1 + LEVEL) / 2, n - 1))


def seeds_to_tell(difference: float, sd: float) -> int | None:
    """The least number of seeds whose interval would exclude 0, if mean and spread stay as seen.

    None for a difference of 0. `SEEDS_CAP + 1` stands for more than `SEEDS_CAP`. Since the next
    seeds will not repeat mean and spread exactly, this many seeds tell about every second time.
    """
    if difference == 0:
        return None
    low, high = 2, SEEDS_CAP + 1
    while (
        low < high
    ):  # the width shrinks with every seed, so the first that fits is found by halves
        middle = (low + high) // 2
        if quantile(middle) * sd / math.sqrt(middle) < abs(difference):
            high = middle
        else:
            low = middle + 1
    return low
