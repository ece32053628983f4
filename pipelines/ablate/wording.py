"""What a summary says, in words and formatted numbers: the same on terminal, Markdown and page.

The sentences are mechanical. "Higher" and "lower" speak of the number, never of better or worse.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from pipelines.ablate.intervals import SEEDS_CAP
from pipelines.ablate.results import Arm, CellResult, Difference, Measure, Seed, Summary, spell
from pipelines.report.estimates import Estimate, number

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
METHOD = (
    "Brackets are 95 % intervals of the mean over seeds (Student's t, n − 1 degrees of freedom; "
    "they take differences between seeds as roughly normal, which a handful of seeds cannot "
    "show). A difference is the mean of arm − baseline between cells of equal seeds, so what a "
    "seed does to both arms cancels. “Higher” and “lower” mean that its interval excludes 0, and "
    "say nothing about better or worse. The intervals speak about other seeds of the axes varied "
    "here, not about other data or other models. The seeds that a comparison needs are those at "
    "which the interval would exclude 0 if mean and spread stayed as they are; new seeds vary "
    "both, so that many tell about every second time."
)


def clean(text: str) -> str:
    """One line without control characters, so that no name or error can steer a terminal."""
    valid = text.encode("utf-8", "replace").decode("utf-8")
    return _CONTROL.sub("", " ".join(valid.split()))


def clean_lines(text: str) -> str:
    """As `clean`, keeping lines and indentation."""
    valid = text.encode("utf-8", "replace").decode("utf-8").expandtabs(4)
    return "\n".join(_CONTROL.sub("", line).rstrip() for line in valid.strip().splitlines())


def labels(summary: Summary) -> tuple[str, ...]:
    """A short name for each arm: the settings in which the arms differ."""
    shared = _common(summary) if len(summary.arms) > 1 else {}
    return tuple(
        clean(spell({k: v for k, v in arm.settings.items() if k not in shared}))
        for arm in summary.arms
    )


def what_differs(summary: Summary) -> list[str]:
    """Sentences on the arms, the baseline, the seeds and how many cells finished."""
    arms, shared = summary.arms, _common(summary)
    varied = dict.fromkeys(key for arm in arms for key in arm.settings if key not in shared)
    base = labels(summary)[arms.index(summary.baseline)]
    if varied:
        axes = [
            f"{key} ({', '.join(dict.fromkeys(arm.settings.get(key, 'not set') for arm in arms))})"
            for key in varied
        ]
        said = [f"{len(arms)} arms differ in {_listed(axes)}. The baseline is {base}."]
    else:
        said = [f"There is one arm, the baseline ({base}), so there is nothing to compare."]
    if varied and shared:
        said.append(f"The same in all: {spell(shared)}.")
    said += [_seeds(summary), _finished(arms)]
    return [clean(sentence) for sentence in said]


def told(summary: Summary) -> list[tuple[str, str]]:
    """(verdict, sentence) of every arm and metric: what can be told first."""
    order = ("higher", "lower", "cannot tell", "too few seeds")
    found = [
        (measure.difference.verdict, clean(_sentence(summary, measure, measure.difference, label)))
        for metric in summary.metrics
        for arm, label in zip(summary.arms, labels(summary), strict=True)
        for measure in [arm.measure(metric)]
        if measure.difference is not None
    ]
    return sorted(found, key=lambda pair: order.index(pair[0]))


def cautions(summary: Summary) -> list[str]:
    """What a reader has to keep in mind for these very numbers."""
    said = _lost(summary)
    if summary.intervals > 1:
        excluding = sum(d.verdict in ("higher", "lower") for d in summary.differences)
        said.append(
            f"{summary.intervals} intervals of differences are shown; {excluding} "
            f"{'excludes' if excluding == 1 else 'exclude'} 0. About 1 in 20 misses the true "
            "difference by chance: if no setting changed anything, about "
            f"{summary.intervals / 20:.1f} of {summary.intervals} would still exclude 0."
        )
    for metric in summary.metrics:
        said += _without_width(summary, metric)
    return [clean(sentence) for sentence in said]


def verdict_words(difference: Difference | None) -> str:
    """The verdict as a table's cell, with the seeds that a comparison would need."""
    if difference is None:
        return "baseline"
    if difference.verdict == "cannot tell":
        return f"cannot tell ({_needed(difference)})"
    if difference.verdict == "too few seeds":
        return f"too few seeds ({_counted(len(difference.pairs), 'pair')})"
    return difference.verdict


def decimals(summary: Summary, metric: str) -> int:
    """Decimals for all values of a metric: 3 to 6, or 1 to 6 for values of 100 and more.

    Enough to show two digits of the narrowest interval, and that an interval excludes 0 where its
    verdict says so.
    """
    measures = [arm.measure(metric) for arm in summary.arms]
    found = [m.difference for m in measures if m.difference is not None]
    estimates = [m.estimate for m in measures] + [d.estimate for d in found]
    sizes = [abs(e.value) for e in estimates if e.value is not None]
    shown = [
        (e.high - e.low) / 2 or abs(e.value)
        for e in estimates
        if e.value is not None and e.low is not None and e.high is not None
    ]
    shown += [
        min(abs(d.estimate.low), abs(d.estimate.high))
        for d in found
        if d.verdict in ("higher", "lower")
        and d.estimate.low is not None
        and d.estimate.high is not None
    ]
    least = 1 if max(sizes, default=0.0) >= 100 else 3
    smallest = min((size for size in shown if size > 0), default=1.0)
    return max(least, min(6, math.ceil(-math.log10(smallest)) + 1))


def amount(estimate: Estimate, digits: int, *, signed: bool = False) -> str:
    """`0.362 [0.318, 0.403]`, or why there is no interval."""
    if estimate.value is None:
        return "no value"
    value = number(estimate.value, digits, signed=signed)
    if estimate.low is None or estimate.high is None:
        return f"{value} (1 seed, no interval)"
    return f"{value} [{number(estimate.low, digits)}, {number(estimate.high, digits)}]"


def seed_words(seed: Seed) -> str:
    """The seeds of a cell, or that none was varied."""
    return clean(spell(seed)) if seed else "no seed"


def status_words(cell: CellResult) -> str:
    """The status of a cell, with the reason if there is one."""
    return clean(f"{cell.status}: {cell.error}" if cell.error else cell.status)


def _sentence(summary: Summary, measure: Measure, difference: Difference, label: str) -> str:
    metric, digits = measure.metric, decimals(summary, measure.metric)
    size = amount(difference.estimate, digits, signed=True)
    pairs = _counted(difference.estimate.n, "pair")
    if difference.verdict in ("higher", "lower"):
        return (f"{metric} is {difference.verdict} with {label} than with the baseline: "
                f"{size}, {pairs}.")  # fmt: skip
    if difference.verdict == "cannot tell":
        return (f"{metric}: cannot tell {label} from the baseline: {size}, {pairs}; "
                f"{_needed(difference)}.")  # fmt: skip
    return f"{metric}: too few seeds to compare {label}: {_why_too_few(summary, measure, size)}."


def _lost(summary: Summary) -> list[str]:
    """Cells that did not finish, and metrics that finished cells lack."""
    said = []
    for arm, label in zip(summary.arms, labels(summary), strict=True):
        lost = [f"{n} {what}" for n, what in
                ((arm.failed, "failed"), (arm.not_run, "did not run")) if n]  # fmt: skip
        if lost:
            rest = "its numbers are of those that finished" if arm.done else "it has no numbers"
            said.append(f"{label}: of {_cells(arm.cells)}, {_listed(lost)}; {rest}.")
        said += [
            f"{label}: {measure.metric} is absent or not a number in {measure.missing} of "
            f"{_cells(arm.done, 'finished ')}."
            for measure in arm.measures
            if measure.missing
        ]
    return said


def _without_width(summary: Summary, metric: str) -> list[str]:
    """Values and differences that do not vary over seeds: their intervals promise too much."""
    constant: list[str] = []
    shifted: list[str] = []
    equal: list[str] = []
    with_seeds = 0
    for arm, label in zip(summary.arms, labels(summary), strict=True):
        measure = arm.measure(metric)
        with_seeds += measure.estimate.n > 1
        if measure.constant:
            constant.append(label)
        elif measure.difference is not None and measure.difference.constant:
            (shifted if measure.difference.estimate.value else equal).append(label)
    said = []
    if constant:
        where = "every arm" if len(constant) == with_seeds > 1 else "; ".join(constant)
        said.append(f"{metric} is the same for every seed in {where}: the seed may not reach it, "
                    "and an interval without width promises too much.")  # fmt: skip
    if shifted:
        said.append(f"{metric} differs from the baseline by the same amount for every seed in "
                    f"{'; '.join(shifted)}: an interval without width promises too "
                    "much.")  # fmt: skip
    if equal:
        said.append(f"{metric} equals the baseline's for every seed in {'; '.join(equal)}: the "
                    "setting may not reach it.")  # fmt: skip
    return said


def _why_too_few(summary: Summary, measure: Measure, size: str) -> str:
    base = summary.baseline.measure(measure.metric)
    if base.estimate.n == 0:
        return "the baseline has no value"
    if measure.estimate.n == 0:
        return "it has no value"
    if measure.difference is None or not measure.difference.pairs:
        return "it has no seed in common with the baseline"
    return f"one pair ({size.split(' ')[0]}) gives no interval"


def _needed(difference: Difference) -> str:
    needed = difference.seeds_needed
    if needed is None:
        return "no difference seen"
    if needed > SEEDS_CAP:
        return f"would need more than {SEEDS_CAP} seeds"
    return f"would need about {needed} seeds"


def _seeds(summary: Summary) -> str:
    axes: dict[str, dict[str, None]] = {}
    for seed in summary.seeds:
        for axis, value in seed:
            axes.setdefault(axis, {})[value] = None
    if not axes:
        return "No seed was varied: each arm is one run, and one run cannot say how runs vary."
    spelled = [f"{axis} {', '.join(values)}" for axis, values in axes.items()]
    return f"Seeds: {_listed(spelled)}."


def _finished(arms: Sequence[Arm]) -> str:
    total, done = sum(arm.cells for arm in arms), sum(arm.done for arm in arms)
    if done == total:
        return f"All {total} cells finished." if total > 1 else "The one cell finished."
    failed, waiting = sum(arm.failed for arm in arms), sum(arm.not_run for arm in arms)
    return f"{_cells(total)}: {done} finished, {failed} failed, {waiting} not run."


def _common(summary: Summary) -> dict[str, str]:
    first, *rest = (arm.settings for arm in summary.arms)
    return {k: v for k, v in first.items() if all(other.get(k) == v for other in rest)}


def _cells(n: int, kind: str = "") -> str:
    return _counted(n, f"{kind}cell")


def _counted(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def _listed(items: Sequence[str]) -> str:
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)
