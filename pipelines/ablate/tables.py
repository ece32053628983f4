"""A summary as a terminal table, as CSV and as Markdown, from the same rows.

    print_summary(summary)               # to the terminal
    results_csv(summary)                 # one row per arm and metric
    cells_csv(results)                   # one row per cell, every metric it has

CSV holds full precision and leaves empty what is not known. Its columns of settings and metrics
are prefixed (`setting.distractors`, `metric.evaluate.policy_reward`), since a parameter and a
metric may share a name.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.ablate import wording
from pipelines.ablate.intervals import SEEDS_CAP
from pipelines.ablate.results import Arm, CellResult, Measure, Summary, seed_of, spell
from pipelines.report.estimates import count, seconds
from pipelines.terminal import terminal

if TYPE_CHECKING:
    from rich.console import Console

METRIC_COLUMNS = ("Arm", "Mean over seeds", "n", "Difference, paired", "Pairs", "In words")
COST_COLUMNS = ("Arm", "Cells", "Done", "Failed", "Not run", "Tokens", "Time")
CELL_COLUMNS = ("Cell", "Settings", "Seeds", "Status", "Tokens", "Time")
_INTERVAL = re.compile(r"(\[−?[\d.]+, −?[\d.]+\])(?![(\[:])")
_SPECIAL = re.compile(r"[\\`*\[\]<>|&~#]|(?<!\w)_|_(?!\w)")
NUMBERS = {"n", "Pairs", "Cells", "Done", "Failed", "Not run", "Tokens", "Time"}


def metric_rows(summary: Summary, metric: str) -> list[tuple[str, ...]]:
    """A row of `METRIC_COLUMNS` for each arm."""
    digits = wording.decimals(summary, metric)
    rows: list[tuple[str, ...]] = []
    for arm, label in zip(summary.arms, wording.labels(summary), strict=True):
        measure = arm.measure(metric)
        found = measure.difference
        rows.append((
            label,
            wording.amount(measure.estimate, digits),
            str(measure.estimate.n),
            "–" if found is None else wording.amount(found.estimate, digits, signed=True),
            "–" if found is None else str(len(found.pairs)),
            wording.verdict_words(found),
        ))  # fmt: skip
    return rows


def cost_rows(summary: Summary) -> list[tuple[str, ...]]:
    """A row of `COST_COLUMNS` for each arm; tokens and time are means of the finished cells."""
    return [
        (
            label, str(arm.cells), str(arm.done), str(arm.failed), str(arm.not_run),
            "unknown" if arm.tokens is None else count(round(arm.tokens)),
            "unknown" if arm.seconds is None else seconds(arm.seconds),
        )
        for arm, label in zip(summary.arms, wording.labels(summary), strict=True)
    ]  # fmt: skip


def cell_rows(results: Sequence[CellResult]) -> list[tuple[str, ...]]:
    """A row of `CELL_COLUMNS` for each cell; the reason of a failure is with the status."""
    return [
        (
            wording.clean(cell.name),
            wording.clean(spell(cell.settings)),
            wording.seed_words(seed_of(cell)),
            wording.status_words(cell),
            "unknown" if cell.tokens is None else count(cell.tokens),
            "unknown" if cell.seconds is None else seconds(cell.seconds),
        )
        for cell in results
    ]


def print_summary(summary: Summary, console: Console | None = None) -> None:
    """Print what differs, a table per metric, what to keep in mind, and what it cost."""
    from rich.markup import escape
    from rich.table import Table

    out = console or terminal()

    def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        drawn = Table(title=escape(wording.clean(title)), title_justify="left")
        for column in columns:
            right = column in NUMBERS
            drawn.add_column(column, justify="right" if right else "left", no_wrap=right,
                             overflow="fold")  # fmt: skip
        for row in rows:
            drawn.add_row(*map(escape, row))
        out.print(drawn)

    out.print(*map(escape, wording.what_differs(summary)), sep="\n", highlight=False)
    for metric in summary.metrics:
        table(metric, METRIC_COLUMNS, metric_rows(summary, metric))
    table("Cost, mean per finished cell", COST_COLUMNS, cost_rows(summary))
    for sentence in wording.cautions(summary):
        out.print(f"note: {escape(sentence)}", highlight=False)


def results_csv(summary: Summary) -> str:
    """The long form: one row per arm and metric."""
    rows = [
        {
            "arm": label,
            **{f"setting.{key}": value for key, value in arm.settings.items()},
            "baseline": "yes" if arm.baseline else "no",
            "metric": measure.metric,
            **_estimates(measure),
            "cells": arm.cells, "done": arm.done, "failed": arm.failed, "not_run": arm.not_run,
            "tokens": arm.tokens, "seconds": arm.seconds,
        }
        for arm, label in zip(summary.arms, wording.labels(summary), strict=True)
        for measure in arm.measures
    ]  # fmt: skip
    first = ["arm", *_settings(summary.arms), "baseline", "metric"]
    return _csv(rows, first)


def cells_csv(results: Sequence[CellResult]) -> str:
    """One row per cell; a metric that a cell does not have is empty, one that is NaN says nan."""
    rows = [
        {
            "name": cell.name,
            "status": cell.status,
            **{f"setting.{key}": value for key, value in cell.settings.items()},
            **dict(sorted(cell.seeds.items())),
            "seconds": cell.seconds,
            "tokens": cell.tokens,
            "error": cell.error,
            **{f"metric.{key}": value for key, value in sorted(cell.metrics.items())},
        }
        for cell in results
    ]
    seeds = dict.fromkeys(axis for cell in results for axis in sorted(cell.seeds))
    return _csv(rows, ["name", "status", *_settings(results), *seeds])


def markdown(
    name: str, summary: Summary, results: Sequence[CellResult], how: str, notes: Sequence[str]
) -> str:
    """The whole comparison as a Markdown document; whatever comes from a user is escaped."""
    parts = [f"# Ablation {_md(name)}", *map(_md, wording.what_differs(summary))]
    parts.append(_bullets([sentence for _, sentence in wording.told(summary)]))
    parts.append(_bullets([*wording.cautions(summary), *notes]))
    for metric in summary.metrics:
        parts += [f"## {_md(metric)}", _table(METRIC_COLUMNS, metric_rows(summary, metric))]
    parts += ["## Cost, mean per finished cell", _table(COST_COLUMNS, cost_rows(summary))]
    parts += ["## Cells", _table(CELL_COLUMNS, cell_rows(results))]
    parts += ["## How", _fenced(wording.clean_lines(how)), _md(wording.METHOD)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _estimates(measure: Measure) -> dict[str, Any]:
    mean, found = measure.estimate, measure.difference
    row = {"n": mean.n, "mean": mean.value, "low": mean.low, "high": mean.high}
    if found is None:
        return row | dict.fromkeys(
            ("pairs", "difference", "difference_low", "difference_high", "verdict", "seeds_needed")
        )
    needed = found.seeds_needed
    return row | {
        "pairs": found.estimate.n,
        "difference": found.estimate.value,
        "difference_low": found.estimate.low,
        "difference_high": found.estimate.high,
        "verdict": found.verdict,
        "seeds_needed": f">{SEEDS_CAP}" if needed and needed > SEEDS_CAP else needed,
    }


def _settings(of: Sequence[Arm] | Sequence[CellResult]) -> list[str]:
    return [f"setting.{key}" for key in dict.fromkeys(key for one in of for key in one.settings)]


def _csv(rows: Sequence[Mapping[str, Any]], first: Sequence[str]) -> str:
    columns = list(dict.fromkeys([*first, *(key for row in rows for key in row)]))
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([wording.clean(column) for column in columns])
    for row in rows:
        values = (row.get(column) for column in columns)
        writer.writerow([wording.clean(v) if isinstance(v, str) else v for v in values])
    return buffer.getvalue()


def _md(text: str) -> str:
    """One line of Markdown that shows `text` as it is, also inside a table."""
    parts = _INTERVAL.split(wording.clean(text))  # text and intervals in turn
    parts[::2] = [_SPECIAL.sub(r"\\\g<0>", part) for part in parts[::2]]
    return "".join(parts)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["--:" if column in NUMBERS else ":--" for column in columns]
    lines = [columns, rule, *([_md(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _bullets(sentences: Sequence[str]) -> str:
    return "\n".join(f"- {_md(sentence)}" for sentence in sentences)


def _fenced(text: str) -> str:
    """A code block whose fence is longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"
