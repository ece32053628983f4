"""A small grid: two settings, three seeds, numbers that can be checked by hand."""

from __future__ import annotations

import pytest

from pipelines.ablate.results import CellResult, Summary, summarise

HOSTILE = "<script>alert('x')</script> | `a` \x1b[31m**b** \udcff [c](d)\n| _e_ \\| \"f\", $x_1$"
BASE = {"distractors": "tiered"}
OTHER = {"distractors": "random"}


def cell(
    settings: dict[str, str], seed: str | None, value: float | None = None, *,
    status: str = "done", metric: str = "evaluate.reward", seconds: float | None = None,
    tokens: int | None = None, error: str = "",
) -> CellResult:  # fmt: skip
    """A cell named after its settings; without a value it has no metrics."""
    seeds = {} if seed is None else {"seed.train": seed}
    return CellResult(
        name="-".join([*settings.values(), *seeds.values()]), settings=settings, seeds=seeds,
        status=status, metrics={} if value is None else {metric: value}, seconds=seconds,
        tokens=tokens, error=error,
    )  # fmt: skip


def grid(base: list[float], other: list[float]) -> list[CellResult]:
    return [
        cell(settings, str(i), value)
        for settings, values in ((BASE, base), (OTHER, other))
        for i, value in enumerate(values)
    ]


@pytest.fixture
def results() -> list[CellResult]:
    """Baseline 0.52 ± 0.02, the other 0.62; the difference is 0.10 ± 0.02 over three pairs."""
    return [
        cell(BASE, "0", 0.50, seconds=10.0, tokens=100),
        cell(BASE, "1", 0.52, seconds=20.0),
        cell(BASE, "2", 0.54, seconds=30.0, tokens=200),
        cell(OTHER, "0", 0.60),
        cell(OTHER, "1", 0.60),
        cell(OTHER, "2", 0.66),
    ]


@pytest.fixture
def summary(results: list[CellResult]) -> Summary:
    return summarise(results, BASE, ["evaluate.reward"])


@pytest.fixture
def hostile() -> list[CellResult]:
    """Hostile text wherever a user, a stage or an error message can put some."""
    return [
        CellResult(HOSTILE, {HOSTILE: value}, {f"seed.{HOSTILE}": seed}, status,
                   {HOSTILE: number}, None, None, HOSTILE)
        for value in (HOSTILE, "plain")
        for seed, number, status in (
            ("0", 0.1, "done"), ("1", 0.3, "done"), (HOSTILE, 0.2, "failed"),
        )
    ]  # fmt: skip
