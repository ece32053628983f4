"""Seeded percentile bootstrap of a mean and of a paired difference.

Guarantees: the same values and seed give the same interval, in whatever order the rows come; no
NaN comes out (one that goes in is an error); memory is bounded whatever the number of values.
Efron and Tibshirani, An Introduction to the Bootstrap (1993), section 13.3.

`clusters` names the question each value belongs to. Several answers to one question rise and
fall together, and resampling them one by one would treat eight answers to one hard question as
eight independent questions and give too narrow an interval. With `clusters`, whole questions are
drawn, each with all its values; the mean stays the mean over values.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_CELLS = 2_000_000  # draws held at once: 16 MB of indices and as much of values


@dataclass(frozen=True)
class Interval:
    """A mean of `n` values and its interval; None where there is too little data to say."""

    mean: float | None
    low: float | None
    high: float | None
    n: int


def mean_interval(
    values: Sequence[float] | npt.NDArray[np.floating],
    seed: int,
    level: float = 0.95,
    resamples: int = 2000,
    clusters: Sequence[Hashable] | None = None,
) -> Interval:
    """The mean of `values` (n,) with a percentile interval of coverage `level`.

    No value: all None. One value or one cluster: the mean alone. Raises ValueError for a value
    that is not finite, a level outside (0, 1), no resamples, or clusters of another length.
    """
    data = np.asarray(values, dtype=np.float64)
    if data.ndim != 1:
        raise ValueError(f"values must have one dimension, not {data.ndim}")
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must be between 0 and 1, not {level}")
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, not {resamples}")
    if clusters is not None and len(clusters) != len(data):
        raise ValueError(f"{len(data)} values but {len(clusters)} cluster ids")
    if not np.isfinite(data).all() or np.abs(data).max(initial=0.0) > 1e150:
        raise ValueError("values must be finite and at most 1e150 in size")
    if len(data) == 0:
        return Interval(None, None, None, 0)

    order = np.argsort(data, kind="stable")
    base = float(data[order[0]])
    shifted = data[order] - base  # so that constant data stays exact
    mean = base + float(shifted.sum()) / len(data)
    sums, counts = _per_cluster(shifted, order, clusters)
    if len(sums) < 2:
        return Interval(mean, None, None, len(data))
    means = _resampled_means(sums, counts, seed, resamples)
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(means, [tail, 1.0 - tail])
    return Interval(mean, base + float(low), base + float(high), len(data))


def paired_difference(
    a: Sequence[float] | npt.NDArray[np.floating],
    b: Sequence[float] | npt.NDArray[np.floating],
    seed: int,
    level: float = 0.95,
    resamples: int = 2000,
    clusters: Sequence[Hashable] | None = None,
) -> Interval:
    """The mean of `a - b`, row by row, with its interval; `a[i]` and `b[i]` share a question.

    Raises ValueError for unequal lengths, and as `mean_interval` does.
    """
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.shape != second.shape:
        raise ValueError(f"paired values differ in shape: {first.shape} and {second.shape}")
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise ValueError("paired values must be finite")
    return mean_interval(first - second, seed, level, resamples, clusters)


def _per_cluster(
    shifted: npt.NDArray[np.float64],
    order: npt.NDArray[np.intp],
    clusters: Sequence[Hashable] | None,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64] | None]:
    """Sum and size of each cluster, in an order that does not depend on the rows' order."""
    if clusters is None:
        return shifted, None
    index: dict[Hashable, int] = {}
    group = np.array([index.setdefault(name, len(index)) for name in clusters])[order]
    sums = np.bincount(group, weights=shifted)
    counts = np.bincount(group).astype(np.float64)
    rank = np.lexsort((counts, sums))
    return sums[rank], counts[rank]


def _resampled_means(
    sums: npt.NDArray[np.float64],
    counts: npt.NDArray[np.float64] | None,
    seed: int,
    resamples: int,
) -> npt.NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    size = len(sums)
    means = np.empty(resamples)
    step = max(1, _CELLS // size)
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        draw = rng.integers(0, size, size=(stop - start, size))
        total = sums[draw].sum(axis=1)
        means[start:stop] = total / (size if counts is None else counts[draw].sum(axis=1))
    return means
