"""Printing the result of a query: as a table for people, as CSV or JSON lines for programs."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pipelines.terminal import terminal

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
    keys = _distinct(result.columns)
    for batch in result.to_arrow_reader(1000):
        columns = [column.to_pylist(maps_as_pydicts="strict") for column in batch.columns]
        for row in zip(*columns, strict=True):
            if form == "csv":
                writer.writerow(row)
            else:
                values = dict(zip(keys, map(_for_json, row), strict=True))
                print(json.dumps(values, default=str, ensure_ascii=False, allow_nan=False))


def _distinct(names: Sequence[str]) -> list[str]:
    """The names, with a number after one that was there before."""
    found: dict[str, None] = {}
    for name in names:
        number = 1
        distinct = name
        while distinct in found:
            distinct = f"{name}_{number}"
            number += 1
        found[distinct] = None
    return list(found)


def _for_json(value: Any) -> Any:
    """JSON knows no NaN and no infinity; DuckDB's sums of integers come as decimals."""
    if isinstance(value, dict):
        return {str(key): _for_json(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_for_json(inner) for inner in value]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _table(result: duckdb.DuckDBPyRelation, limit: int) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(*(escape(column) for column in result.columns))
    rows = result.limit(limit + 1).fetchall()
    more = len(rows) > limit
    rows = rows[:limit]
    for row in rows:
        table.add_row(*(escape(_short(value)) for value in row))
    console = terminal()
    console.print(table)
    note = f"{len(rows)} rows" + (", and more: raise --limit, or use --format csv" if more else "")
    print(note, file=sys.stderr)


def _short(value: object) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= 300 else text[:299] + "…"
