"""The page of an ablation and its files: `reports/ablations/NAME/`.

    write_page(FOLDER, "reward", summary, results, how="longline ablate ...", notes=[])

`index.html` is one file that opens offline, in the look of `longline report`; `results.csv`,
`cells.csv` and `results.md` hold the same numbers. Everything is rendered before anything is
written, and each file is replaced in one step, `index.html` last. The same results give the same
bytes.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipelines.ablate import tables, wording
from pipelines.ablate.results import CellResult, Summary
from schemas.errors import UserError

FOLDER = Path("reports") / "ablations"
TEMPLATES = Path(__file__).parent / "templates"
SECTIONS = (
    ("told", "What can be told"),
    ("metrics", "Metrics"),
    ("cost", "Cost"),
    ("cells", "Cells"),
    ("how", "How"),
)


def write_page(
    folder: Path,
    name: str,
    summary: Summary,
    results: Sequence[CellResult],
    how: str,
    notes: Sequence[str] = (),
) -> Path:
    """Write page, CSV and Markdown to `folder`/`name`; returns the path of the page.

    `how` is the command that made the results; `notes` are sentences to show beside them. Raises
    `UserError` when `name` is not a plain folder name.
    """
    if not name.strip() or name.startswith(".") or not name.isprintable() or set(name) & set("/\\"):
        raise UserError(f"not a name for an ablation: {name!r}",
                        fix="a name without slashes that does not start with a dot")  # fmt: skip
    target = folder / name
    _write_all(target, {
        "results.csv": tables.results_csv(summary),
        "cells.csv": tables.cells_csv(results),
        "results.md": tables.markdown(name, summary, results, how, notes),
        "index.html": render(name, summary, results, how, notes),
    })  # fmt: skip
    return target / "index.html"


def render(
    name: str,
    summary: Summary,
    results: Sequence[CellResult],
    how: str,
    notes: Sequence[str] = (),
) -> str:
    """The page as text."""
    from pipelines.ablate.charts import charts
    from pipelines.report.html import environment

    return environment(TEMPLATES).get_template("ablation.html").render(
        name=wording.clean(name),
        sections=SECTIONS,
        differs=wording.what_differs(summary),
        told=wording.told(summary),
        cautions=[*wording.cautions(summary), *map(wording.clean, notes)],
        metrics=[
            (wording.clean(metric), tables.metric_rows(summary, metric), charts(summary, i))
            for i, metric in enumerate(summary.metrics)
        ],
        metric_columns=tables.METRIC_COLUMNS,
        cost=(tables.COST_COLUMNS, tables.cost_rows(summary)),
        cells=(tables.CELL_COLUMNS, tables.cell_rows(results)),
        numbers=tables.NUMBERS,
        apply=[shlex.quote(wording.clean(c.name)) for c in results if c.status == "done"][:1],
        how=wording.clean_lines(how),
        method=wording.METHOD,
    )  # fmt: skip


def _write_all(folder: Path, files: Mapping[str, str]) -> None:
    """All files under temporary names first, then each in its place: a full disk changes none."""
    folder.mkdir(parents=True, exist_ok=True)
    works = {name: folder / f".{name}.{os.getpid()}.tmp" for name in files}
    try:
        for name, text in files.items():
            works[name].write_text(text, encoding="utf-8")
        for name, work in works.items():
            os.replace(work, folder / name)
    finally:
        for work in works.values():
            work.unlink(missing_ok=True)
