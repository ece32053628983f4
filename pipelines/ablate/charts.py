"""Two charts for each metric: the arms with their seeds, and the differences to the baseline."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.ablate import wording
from pipelines.ablate.results import Measure, Seed, Summary
from pipelines.report.charts import Chart, Dot, dot_chart
from pipelines.report.estimates import number

_ARM, _BASELINE, _DIFFERENCE = 0, 1, 2


def charts(summary: Summary, index: int) -> list[Chart]:
    """The charts of the metric at `index`; none where no cell has a value."""
    metric = summary.metrics[index]
    measures = [arm.measure(metric) for arm in summary.arms]
    if all(measure.estimate.value is None for measure in measures):
        return []
    drawn = [_means(summary, measures, f"metric-{index}-means")]
    if any(m.difference is not None and m.difference.pairs for m in measures):
        drawn.append(_differences(summary, measures, f"metric-{index}-differences"))
    return drawn


def _means(summary: Summary, measures: Sequence[Measure], name: str) -> Chart:
    labels = [
        f"{label} (baseline)" if arm.baseline else label
        for arm, label in zip(summary.arms, wording.labels(summary), strict=True)
    ]
    metric = wording.clean(measures[0].metric)
    dots = [
        Dot(label, m.estimate.value, m.estimate.low, m.estimate.high, [v for _, v in m.values],
            _BASELINE if m.difference is None else _ARM)
        for label, m in zip(labels, measures, strict=True)
    ]  # fmt: skip
    return dot_chart(
        f"{metric}: mean over seeds", dots, name=name,
        x=metric if len(metric) <= 46 else "value",
        table=_table(summary, labels, [dict(m.values) for m in measures]),
    )  # fmt: skip


def _differences(summary: Summary, measures: Sequence[Measure], name: str) -> Chart:
    found = [
        (label, m.difference)
        for label, m in zip(wording.labels(summary), measures, strict=True)
        if m.difference is not None
    ]
    dots = [
        Dot(label, d.estimate.value, d.estimate.low, d.estimate.high, [v for _, v in d.pairs],
            _DIFFERENCE)
        for label, d in found
    ]  # fmt: skip
    return dot_chart(
        f"{wording.clean(measures[0].metric)}: paired difference to the baseline", dots,
        name=name, x="arm − baseline", reference=0.0,
        table=_table(summary, [label for label, _ in found], [dict(d.pairs) for _, d in found],
                     signed=True),
    )  # fmt: skip


def _table(
    summary: Summary, labels: Sequence[str], values: Sequence[dict[Seed, float]], *,
    signed: bool = False,
) -> tuple[list[str], list[list[str]]]:  # fmt: skip
    """The values of each seed; a single axis is named once."""
    columns = ["arm", *(wording.seed_words(seed) for seed in summary.seeds)]
    rows = [
        [label, *(number(of.get(seed), 6, signed=signed) for seed in summary.seeds)]
        for label, of in zip(labels, values, strict=True)
    ]
    return columns, rows
