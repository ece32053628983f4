"""Charts as inline SVG that follows the page's colours, and the table of what each one shows.

matplotlib draws with placeholder colours; they become CSS variables, so that one drawing serves
light and dark. Text stays text. The same numbers give the same bytes: fixed hash salt, no date.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from pipelines.report.estimates import number

WIDTH = 4.6
_INK, _MUTED, _LINE, _PAPER = "#010203", "#010204", "#010205", "#010206"
SERIES = ("#010211", "#010212", "#010213", "#010214", "#010215")
"""Series colours: Okabe and Ito's palette, defined in style.css as --c1 to --c5."""
MARKERS = ("o", "s", "^", "D", "v")
_DASHES = ("-", "--", "-.", ":", (0, (3, 1, 1, 1)))
_CSS = {
    _INK: "currentColor",
    _MUTED: "var(--muted)",
    _LINE: "var(--line)",
    _PAPER: "var(--bg)",
    **{colour: f"var(--c{i})" for i, colour in enumerate(SERIES, 1)},
}


@dataclass(frozen=True)
class Chart:
    """A drawing, what it shows in words, and the numbers behind it."""

    title: str
    alt: str
    svg: Markup
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Points:
    """One series of points; `low` and `high` draw intervals, None breaks the line."""

    label: str
    x: Sequence[float]
    y: Sequence[float | None]
    low: Sequence[float | None] | None = None
    high: Sequence[float | None] | None = None


@dataclass(frozen=True)
class Dot:
    """One row of a dot chart: an estimate, and the single values that it sums up."""

    label: str
    value: float | None
    low: float | None
    high: float | None
    singles: Sequence[float] = ()
    series: int = 0


def line_chart(
    title: str,
    series: Sequence[Points],
    *,
    x: str,
    y: str,
    band: bool = False,
    zero: bool = False,
    ticks: Sequence[float] | None = None,
    log_x: bool = False,
) -> Chart:
    """Lines over a numeric axis; intervals are error bars, or a band with `band`."""

    def draw(axes: Any) -> None:
        for i, points in enumerate(series):
            values = [float("nan") if v is None else v for v in points.y]
            colour = SERIES[i % len(SERIES)]
            mark = MARKERS[i % len(MARKERS)] if len(values) <= 25 else None
            axes.plot(
                points.x,
                values,
                color=colour,
                label=points.label,
                marker=mark,
                markersize=4,
                linewidth=1.6,
                linestyle=_DASHES[i % len(_DASHES)],
            )
            if points.low is not None and points.high is not None:
                low = [float("nan") if v is None else v for v in points.low]
                high = [float("nan") if v is None else v for v in points.high]
                if band:
                    axes.fill_between(points.x, low, high, color=colour, alpha=0.15, linewidth=0)
                else:
                    axes.vlines(points.x, low, high, color=colour, linewidth=1.4)
        if log_x:
            axes.set_xscale("log", base=2)
        if all(float(at).is_integer() for points in series for at in points.x):
            axes.xaxis.get_major_locator().set_params(integer=True)
        if ticks is not None:
            axes.set_xticks(list(ticks), [f"{tick:g}" for tick in ticks])
            axes.minorticks_off()
        if zero:
            low, high = axes.get_ylim()
            axes.set_ylim(min(0.0, low), high + 0.05 * abs(high))
        _finish(axes, x, y, legend=len(series))

    return Chart(title, _series_alt(title, series, x, y), _svg(title, draw, 2.7),
                 *_series_table(series, x))  # fmt: skip


def bar_chart(
    title: str, labels: Sequence[str], groups: Mapping[str, Sequence[float]], *, x: str, y: str
) -> Chart:
    """Bars by category; several groups stand side by side."""

    def draw(axes: Any) -> None:
        width = 0.8 / max(len(groups), 1)
        for i, (label, values) in enumerate(groups.items()):
            centres = [place - 0.4 + width * (i + 0.5) for place in range(len(labels))]
            axes.bar(centres, values, width * 0.92, color=SERIES[i % len(SERIES)], label=label)
        ticks = list(range(0, len(labels), max(1, -(-len(labels) // 8))))
        axes.set_xticks(ticks, [labels[tick] for tick in ticks])
        _finish(axes, x, y, legend=len(groups))

    rows = tuple((label, *(v[i] for v in groups.values())) for i, label in enumerate(labels))
    alt = f"{title}. Bars of {y} by {x}: {len(labels)} categories, {', '.join(groups)}."
    return Chart(title, alt, _svg(title, draw, 2.4), (x, *groups), rows)


def comparison_chart(
    title: str, buckets: Sequence[str], systems: Mapping[str, Sequence[Mapping[str, Any]]],
    difference: Sequence[Mapping[str, Any]] | None, *, value: str, reference: float | None = None,
) -> Chart:  # fmt: skip
    """Intervals of each system by bucket, and beside them the paired difference.

    `reference` is a value that a dashed line marks, such as that of a coin.
    """
    height = 1.2 + 0.45 * len(buckets)
    rows = list(range(len(buckets)))

    def intervals(axes: Any, found: Sequence[Mapping[str, Any]], shift: float, i: int,
                  label: str | None) -> None:  # fmt: skip
        for row, entry in zip(rows, found, strict=True):
            if entry["low"] is not None and entry["high"] is not None:
                axes.hlines(row + shift, entry["low"], entry["high"], color=SERIES[i],
                            linewidth=2)  # fmt: skip
        known = [(e["value"], r + shift) for r, e in zip(rows, found, strict=True)
                 if e["value"] is not None]  # fmt: skip
        axes.plot([v for v, _ in known], [r for _, r in known], linestyle="none", color=SERIES[i],
                  marker=MARKERS[i], markersize=5, label=label)  # fmt: skip

    def draw(figure: Any) -> None:
        ratios = [3, 2] if difference is not None else [1]
        panels = figure.subplots(1, len(ratios), sharey=True, width_ratios=ratios, squeeze=False)[0]
        spread = 0.13 if len(systems) > 1 else 0.0
        for i, (label, found) in enumerate(systems.items()):
            intervals(panels[0], found, (2 * i - len(systems) + 1) * spread, i, label)
        if reference is not None:
            panels[0].axvline(reference, color=_MUTED, linewidth=1, linestyle="--")
        _finish(panels[0], value, "", legend=len(systems), above=True)
        panels[0].set_yticks(rows, list(buckets))
        panels[0].set_ylim(len(buckets) - 0.5, -0.5)
        if difference is not None:
            intervals(panels[1], difference, 0.0, 2, None)
            panels[1].axvline(0, color=_MUTED, linewidth=1, linestyle="--")
            _finish(panels[1], "difference", "", legend=0)
            panels[1].tick_params(left=False)
            panels[1].spines["left"].set_visible(False)
        for panel, most in zip(panels, (5, 3), strict=False):
            panel.locator_params(axis="x", nbins=most)

    table = [
        (bucket, label, number(e["value"], signed=label == "difference"), number(e["low"]),
         number(e["high"]), e["n"])
        for i, bucket in enumerate(buckets)
        for label, found in [*systems.items(),
                             *([("difference", difference)] if difference is not None else [])]
        for e in [found[i]]
    ]  # fmt: skip
    alt = f"{title}. " + "; ".join(f"{b}, {s}: {v} [{lo}, {hi}]" for b, s, v, lo, hi, _ in table)
    return Chart(title, alt, _svg(title, draw, height, whole=True),
                 ("bucket", "system", value, "low", "high", "n"), tuple(table))  # fmt: skip


def dot_chart(
    title: str, dots: Sequence[Dot], *, name: str, x: str, table: tuple[Sequence[str],
    Sequence[Sequence[Any]]], reference: float | None = None,
) -> Chart:  # fmt: skip
    """A row for each estimate, its label above it, its single values below it as open circles.

    `name` sets the drawing's ids apart from those of other charts on the page; `reference` is a
    value that a dashed line marks. A row without a value says so.
    """
    wrapped = [_two_lines(dot.label) for dot in dots]
    lines = max((len(label) for label in wrapped), default=1)
    row = 0.42 + 0.17 * lines  # inches

    def draw(axes: Any) -> None:
        for y, (dot, label) in enumerate(zip(dots, wrapped, strict=True)):
            colour = SERIES[dot.series % len(SERIES)]
            axes.annotate("\n".join(label), (0, y), xycoords=("axes fraction", "data"),
                          xytext=(2, 8), textcoords="offset points", va="bottom",
                          bbox={"facecolor": _PAPER, "linewidth": 0, "pad": 1})  # fmt: skip
            if dot.value is None:
                axes.annotate("no value", (0, y), xycoords=("axes fraction", "data"),
                              xytext=(2, 0), textcoords="offset points", va="center",
                              color=_MUTED)  # fmt: skip
                continue
            if dot.low is not None and dot.high is not None:
                axes.hlines(y, dot.low, dot.high, color=colour, linewidth=2)
            axes.plot([dot.value], [y], color=colour, marker=MARKERS[dot.series % len(MARKERS)],
                      markersize=6)  # fmt: skip
            axes.plot(dot.singles, [y + 0.1 / row] * len(dot.singles), linestyle="none",
                      marker="o", markersize=4, markerfacecolor="none", color=_MUTED)  # fmt: skip
        if reference is not None:
            axes.axvline(reference, color=_MUTED, linewidth=1, linestyle="--")
        _finish(axes, x, "", legend=0)
        axes.margins(x=0.08)
        axes.locator_params(axis="x", nbins=5)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set_ylim(len(dots) - 0.62, -0.45 - (0.1 + 0.17 * lines) / row)

    alt = f"{title}. " + "; ".join(
        f"{dot.label}: {number(dot.value)} [{number(dot.low)}, {number(dot.high)}]" for dot in dots
    )
    columns, rows = table
    return Chart(title, alt, _svg(name, draw, 0.75 + row * len(dots)), tuple(columns),
                 tuple(map(tuple, rows)))  # fmt: skip


def _two_lines(text: str, width: int = 48) -> list[str]:
    lines = textwrap.wrap(text, width)
    return lines if len(lines) <= 2 else [lines[0], f"{lines[1][: width - 2]} …"]


def _series_table(
    series: Sequence[Points], x: str
) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]]:
    columns, rows = [x], {at: [f"{at:g}"] for at in sorted({a for s in series for a in s.x})}
    for points in series:
        columns.append(points.label)
        places = {at: i for i, at in enumerate(points.x)}
        for at, row in rows.items():
            i = places.get(at)
            text = "–" if i is None else number(points.y[i])
            if i is not None and points.low is not None and points.high is not None:
                text += f" [{number(points.low[i])}, {number(points.high[i])}]"
            row.append(text)
    return tuple(columns), tuple(tuple(row) for row in rows.values())


def _series_alt(title: str, series: Sequence[Points], x: str, y: str) -> str:
    parts = []
    for points in series:
        known = [(a, v) for a, v in zip(points.x, points.y, strict=True) if v is not None]
        if known:
            (first, start), (last, end) = known[0], known[-1]
            parts.append(f"{points.label} goes from {number(start)} at {first:g} "
                         f"to {number(end)} at {last:g}")  # fmt: skip
    return f"{title}. {y or 'Value'} by {x}: " + "; ".join(parts) + "."


def _finish(axes: Any, x: str, y: str, *, legend: int, above: bool = False) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(True, axis="x" if above or not y else "y", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if legend > 1:
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=_legend_columns(axes),
                    frameon=False, borderaxespad=0, handlelength=1.8,
                    columnspacing=1.2)  # fmt: skip


def _legend_columns(axes: Any) -> int:
    """As many columns, up to three, as fit beside each other in the width of a chart."""
    labels = axes.get_legend_handles_labels()[1]
    if len(labels) <= 3 and sum(len(label) + 5 for label in labels) <= 46:
        return len(labels)
    return max(1, min(2, 46 // (max(map(len, labels)) + 5)))


def _style() -> AbstractContextManager[None]:
    import matplotlib

    return matplotlib.rc_context({
        "svg.fonttype": "none", "svg.hashsalt": "longline", "text.parse_math": False,
        "font.size": 11, "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"],
        "axes.labelsize": 11, "xtick.labelsize": 10.5, "ytick.labelsize": 10.5,
        "legend.fontsize": 10.5, "text.color": _INK, "axes.labelcolor": _INK,
        "xtick.color": _MUTED, "ytick.color": _MUTED, "xtick.labelcolor": _INK,
        "ytick.labelcolor": _INK, "axes.edgecolor": _MUTED, "grid.color": _LINE,
        "axes.unicode_minus": True, "xtick.major.size": 3, "ytick.major.size": 3,
        "axes.formatter.use_mathtext": False,
    })  # fmt: skip


def _svg(title: str, draw: Callable[[Any], None], height: float, *, whole: bool = False) -> Markup:
    """Draw on the axes of a new figure (on the figure itself with `whole`)."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with _style():
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure if whole else figure.add_subplot())
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return Markup(_inline(buffer.getvalue(), re.sub(r"\W+", "-", title.lower()).strip("-")))  # noqa: S704  matplotlib escapes its text


def _inline(svg: str, name: str) -> str:
    """The `<svg>` element for use inside HTML: no prolog, no foreign names, ids of its own."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style\b.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg).replace("xlink:href", "href")
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    svg = re.sub(r'(<svg\b[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg\b[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = svg.replace("'DejaVu Sans', sans-serif", "inherit").replace("'DejaVu Sans'", "inherit")
    svg = re.sub("|".join(_CSS), lambda match: _CSS[match.group()], svg)
    return svg.replace("<svg", '<svg aria-hidden="true"', 1).strip()
