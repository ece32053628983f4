"""What an ablation found: each arm's metrics over seeds, and the paired difference to a baseline.

    summary = summarise(results, baseline={"distractors": "random"},
                        metrics=["evaluate.policy_reward"])
    summary.arms[1].measures[0].difference.verdict      # "cannot tell"

An *arm* is one choice of settings, a *cell* one arm with one choice of seeds. Guarantees: the
order of cells changes the order of arms and nothing else; only finished cells count, and the
others are counted; a metric that is absent or not a number in a cell is left out there, never
taken for 0; a difference is made only between cells of equal seeds; no NaN comes out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pipelines.ablate.intervals import Sample, mean_interval, seeds_to_tell, usable
from pipelines.report.estimates import Estimate
from schemas.errors import UserError

Verdict = Literal["higher", "lower", "cannot tell", "too few seeds"]
Seed = tuple[tuple[str, str], ...]
"""The seeds of a cell: (axis, value) pairs by axis. Cells with equal seeds are paired."""
STATUSES = ("done", "failed", "not run")


@dataclass(frozen=True)
class CellResult:
    """One cell of the grid, finished or not."""

    name: str
    """Experiment name, usable with `dvc exp apply NAME`."""
    settings: dict[str, str]
    """The axes that are not seeds, such as {"distractors": "random"}."""
    seeds: dict[str, str]
    """The axes under `seed.`, such as {"seed.train": "0"}; may be empty."""
    status: str
    """"done", "failed" or "not run"."""
    metrics: dict[str, float]
    """STAGE.key, flattened: {"evaluate.policy_reward": 0.54}."""
    seconds: float | None
    """Of the stages of this cell; None is unknown."""
    tokens: int | None
    error: str = ""


@dataclass(frozen=True)
class Difference:
    """Arm minus baseline over the seeds that both have."""

    estimate: Estimate
    pairs: tuple[tuple[Seed, float], ...]
    verdict: Verdict
    seeds_needed: int | None
    """For "cannot tell": see `intervals.seeds_to_tell`. None where no number can be given."""
    constant: bool
    """Two pairs or more, and all differ by the same: the interval has no width."""


@dataclass(frozen=True)
class Measure:
    """One metric of one arm. `difference` is None for the baseline itself."""

    metric: str
    estimate: Estimate
    values: tuple[tuple[Seed, float], ...]
    missing: int
    """Finished cells in which the metric is absent or not a number."""
    constant: bool
    difference: Difference | None


@dataclass(frozen=True)
class Arm:
    """One choice of settings; `measures` are in the order of `Summary.metrics`."""

    settings: dict[str, str]
    baseline: bool
    done: int
    failed: int
    not_run: int
    measures: tuple[Measure, ...]
    tokens: float | None
    """Mean of the finished cells where it is known, as `seconds`; None is unknown."""
    seconds: float | None

    @property
    def cells(self) -> int:
        return self.done + self.failed + self.not_run

    def measure(self, metric: str) -> Measure:
        return next(measure for measure in self.measures if measure.metric == metric)


@dataclass(frozen=True)
class Summary:
    """The arms in given order, one of them the baseline, and the seeds that any cell has."""

    metrics: tuple[str, ...]
    arms: tuple[Arm, ...]
    seeds: tuple[Seed, ...]

    @property
    def baseline(self) -> Arm:
        return next(arm for arm in self.arms if arm.baseline)

    @property
    def differences(self) -> tuple[Difference, ...]:
        """Every difference to the baseline, of every metric."""
        found = (measure.difference for arm in self.arms for measure in arm.measures)
        return tuple(difference for difference in found if difference is not None)

    @property
    def intervals(self) -> int:
        """How many intervals of differences are shown."""
        return sum(difference.estimate.low is not None for difference in self.differences)


def summarise(
    results: Sequence[CellResult], baseline: Mapping[str, str], metrics: Sequence[str]
) -> Summary:
    """The comparison of all arms with the one whose settings are `baseline`.

    Raises `UserError` when no arm is the baseline, when no metric is named, when a metric is in
    no finished cell (as long as any has metrics), and when two cells are the same.
    """
    _check_cells(results)
    arms = _by_settings(results)
    if dict(baseline) not in [settings for settings, _ in arms]:
        raise UserError(f"no arm has the settings of the baseline: {spell(baseline)}",
                        allowed=[spell(settings) for settings, _ in arms])  # fmt: skip
    asked = _check_metrics(results, metrics)
    reference = next(cells for settings, cells in arms if settings == dict(baseline))
    return Summary(
        metrics=asked,
        arms=tuple(
            _arm(settings, cells, None if settings == dict(baseline) else reference, asked)
            for settings, cells in arms
        ),
        seeds=tuple(sorted({seed_of(cell) for cell in results}, key=natural)),
    )


def compare(values: Mapping[Seed, float], baseline: Mapping[Seed, float]) -> Difference:
    """The paired difference `values - baseline` over the seeds in both, and what it tells."""
    shared = sorted(values.keys() & baseline.keys(), key=natural)
    pairs = tuple((seed, values[seed] - baseline[seed]) for seed in shared)
    scale = max((abs(v) for seed in shared for v in (values[seed], baseline[seed])), default=0.0)
    sample = mean_interval([difference for _, difference in pairs], scale)
    verdict = _verdict(sample.estimate)
    needed = None
    if verdict == "cannot tell" and sample.sd and sample.estimate.value is not None:
        needed = seeds_to_tell(sample.estimate.value, sample.sd)
    return Difference(sample.estimate, pairs, verdict, needed, sample.constant)


def seed_of(cell: CellResult) -> Seed:
    return tuple(sorted(cell.seeds.items()))


def spell(settings: Mapping[str, str] | Seed) -> str:
    """Settings or seeds as a user types them; "as configured" for none."""
    items = settings.items() if isinstance(settings, Mapping) else settings
    return ", ".join(f"{key}={value}" for key, value in items) or "as configured"


def natural(seed: Seed) -> tuple[tuple[str, int, int, str], ...]:
    """A key that sorts seed 9 before seed 10."""
    return tuple(
        (axis, 0, int(value), value)
        if value.isascii() and value.isdigit() and len(value) < 20
        else (axis, 1, 0, value)
        for axis, value in seed
    )


def _arm(
    settings: dict[str, str],
    cells: Sequence[CellResult],
    reference: Sequence[CellResult] | None,
    metrics: Sequence[str],
) -> Arm:
    done = [cell for cell in cells if cell.status == "done"]
    return Arm(
        settings=settings,
        baseline=reference is None,
        done=len(done),
        failed=sum(cell.status == "failed" for cell in cells),
        not_run=sum(cell.status == "not run" for cell in cells),
        measures=tuple(_measure(metric, cells, reference, len(done)) for metric in metrics),
        tokens=_mean([cell.tokens for cell in done]),
        seconds=_mean([cell.seconds for cell in done]),
    )


def _measure(
    metric: str, cells: Sequence[CellResult], reference: Sequence[CellResult] | None, done: int
) -> Measure:
    values = _values(metric, cells)
    sample: Sample = mean_interval(list(values.values()))
    return Measure(
        metric=metric,
        estimate=sample.estimate,
        values=tuple(sorted(values.items(), key=lambda item: natural(item[0]))),
        missing=done - len(values),
        constant=sample.constant,
        difference=None if reference is None else compare(values, _values(metric, reference)),
    )


def _values(metric: str, cells: Sequence[CellResult]) -> dict[Seed, float]:
    """The metric of every finished cell that has it."""
    return {
        seed_of(cell): float(cell.metrics[metric])
        for cell in cells
        if cell.status == "done" and usable(cell.metrics.get(metric))
    }


def _verdict(difference: Estimate) -> Verdict:
    if difference.low is None or difference.high is None:
        return "too few seeds"
    if difference.low > 0:
        return "higher"
    return "lower" if difference.high < 0 else "cannot tell"


def _mean(values: Sequence[float | None]) -> float | None:
    return mean_interval([v for v in values if v is not None and usable(v)]).estimate.value


def _by_settings(
    results: Sequence[CellResult],
) -> list[tuple[dict[str, str], list[CellResult]]]:
    found: dict[frozenset[tuple[str, str]], list[CellResult]] = {}
    for cell in results:
        found.setdefault(frozenset(cell.settings.items()), []).append(cell)
    return [(dict(cells[0].settings), cells) for cells in found.values()]


def _check_cells(results: Sequence[CellResult]) -> None:
    seen: dict[tuple[frozenset[tuple[str, str]], Seed], str] = {}
    for cell in results:
        if cell.status not in STATUSES:
            raise ValueError(f"status of {cell.name} is {cell.status!r}, not one of {STATUSES}")
        key = (frozenset(cell.settings.items()), seed_of(cell))
        if key in seen:
            raise UserError(
                f"cells {seen[key]} and {cell.name} have the same settings and seeds: "
                f"{spell(cell.settings)}; {spell(cell.seeds)}",
                fix="name every value of an axis once",
            )
        seen[key] = cell.name


def _check_metrics(results: Sequence[CellResult], metrics: Sequence[str]) -> tuple[str, ...]:
    known = {name for cell in results if cell.status == "done" for name in cell.metrics}
    asked = tuple(dict.fromkeys(metrics))
    if not asked:
        raise UserError("no metric was named", allowed=known)
    unknown = [metric for metric in asked if metric not in known]
    if unknown and known:
        raise UserError(f"no finished cell has the metric {', '.join(unknown)}", allowed=known)
    return asked
