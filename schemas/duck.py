"""DuckDB connections with the settings that keep files byte-stable and memory bounded."""

from __future__ import annotations

from pathlib import Path

import duckdb

MEMORY_LIMIT = "2GB"


def connect(scratch: Path | None = None) -> duckdb.DuckDBPyConnection:
    """A private connection: one thread (float sums keep one order), a memory limit, no network.

    `scratch` holds what does not fit in memory; without it, DuckDB makes `.tmp` and removes it.
    """
    config: dict[str, str | bool | int | float | list[str]] = {
        "threads": 1,
        "memory_limit": MEMORY_LIMIT,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    if scratch is not None:
        config["temp_directory"] = str(scratch)
    connection = duckdb.connect(":memory:", config=config)
    connection.execute("SET enable_progress_bar = false")
    return connection


def quoted(path: Path | str) -> str:
    """A path as an SQL string literal."""
    return "'" + str(path).replace("'", "''") + "'"


def name(identifier: str) -> str:
    """A column or view name as a quoted SQL identifier."""
    return '"' + identifier.replace('"', '""') + '"'
