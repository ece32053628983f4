"""Printing the result of a query: as a table for people, as CSV or JSON lines for programs."""

from __future__ import annotations

import csv
import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


def print_rows(result: duckdb.DuckDBPyRelation, form: str, limit: int) -> None:
    """Print to standard output; what was left out of a table is said on standard error."""
    if form == "table":
        _table(result, limit)
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    if form == "csv":
        writer.writerow(result.columns)
    for batch in result.to_arrow_reader(1000):
        for row in batch.to_pylist():
            if form == "csv":
                writer.writerow(row.values())
            else:
                print(json.dumps(row, default=str, ensure_ascii=False))


def _table(result: duckdb.DuckDBPyRelation, limit: int) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(*(escape(column) for column in result.columns))
    rows = result.limit(limit + 1).fetchall()
    more = len(rows) > limit
    rows = rows[:limit]
    for row in rows:
        table.add_row(*(escape(_short(value)) for value in row))
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(table)
    note = f"{len(rows)} rows" + (", and more: raise --limit, or use --format csv" if more else "")
    print(note, file=sys.stderr)


def _short(value: object) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= 300 else text[:299] + "…"
