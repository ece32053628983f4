"""Slicing evaluation rows, with a bootstrap interval for every number.

Values of one question are resampled together: they share its context and are not independent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from stages.metrics.bootstrap import Interval, mean_interval, paired_difference

Row = Mapping[str, Any]
SLICES: dict[str, Callable[[Row], str]] = {
    "budget": lambda row: f"{row['budget_tokens']:06d}",
    "hops": lambda row: str(row["hops"]),
    "gold_position": lambda row: third(row["gold_position"]),
    "hardest_tier": lambda row: str(row["hardest_tier"]),
}


def third(position: float) -> str:
    """The third of the context in which the last gold document starts."""
    return (
        "1 first third" if position < 1 / 3 else "2 middle" if position < 2 / 3 else "3 last third"
    )


def as_dict(interval: Interval) -> dict[str, float | int | None]:
    """An interval as metrics hold it, rounded to six places so that files compare."""

    def rounded(value: float | None) -> float | None:
        return None if value is None else round(value, 6)

    return {
        "value": rounded(interval.mean),
        "low": rounded(interval.low),
        "high": rounded(interval.high),
        "n": interval.n,
    }


def select(rows: Iterable[Row], system: str, measure: str) -> list[Row]:
    """The rows of one system and measure that have a value."""
    return [
        row
        for row in rows
        if row["system"] == system and row["measure"] == measure and row["value"] is not None
    ]


def mean(rows: Sequence[Row], seed: int) -> dict[str, Any]:
    """Mean and interval of the rows' values."""
    return as_dict(
        mean_interval(
            [row["value"] for row in rows], seed, clusters=[row["question_id"] for row in rows]
        )
    )


def difference(better: Sequence[Row], base: Sequence[Row], seed: int) -> dict[str, Any]:
    """Mean of better - base over the (question, sample) that both have, and its interval."""
    other = {(row["question_id"], row["sample"]): row["value"] for row in base}
    pairs = [
        (row["value"], other[key], row["question_id"])
        for row in better
        if (key := (row["question_id"], row["sample"])) in other
    ]
    return as_dict(
        paired_difference(
            [a for a, _, _ in pairs],
            [b for _, b, _ in pairs],
            seed,
            clusters=[q for _, _, q in pairs],
        )
    )


def compare(rows: Sequence[Row], base: str, system: str, measure: str, seed: int) -> dict[str, Any]:
    """Both systems and their paired difference, over all rows."""
    first, second = select(rows, base, measure), select(rows, system, measure)
    return {
        base: mean(first, seed),
        system: mean(second, seed),
        "difference": difference(second, first, seed),
    }


def by_slice(
    rows: Sequence[Row], base: str, system: str, measure: str, seed: int
) -> list[dict[str, Any]]:
    """`compare` within every bucket of every slice, as flat rows for plots and tables."""
    table = []
    for name, bucket_of in SLICES.items():
        for bucket in sorted({bucket_of(row) for row in rows}):
            inside = [row for row in rows if bucket_of(row) == bucket]
            for who, values in compare(inside, base, system, measure, seed).items():
                table.append(
                    {"slice": name, "bucket": bucket, "system": who, "measure": measure, **values}
                )
    return table
