"""One SQL view for every dataset of a workspace, and one for each quarantine.

`open_catalog` backs `longline sql`; `write_catalog` makes a `.duckdb` file of views for any other
DuckDB client. Views point at the Parquet shards, so they are never stale.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import duckdb

from schemas.duck import connect, name, quoted
from schemas.errors import UserError
from schemas.read import untrusted


def dataset_folders(data: Path) -> list[Path]:
    """The folders of published datasets below `data`, by name."""
    return sorted(path.parent for path in data.glob("*/_meta.json"))


def open_catalog(data: Path) -> duckdb.DuckDBPyConnection:
    """A connection with a view `NAME` and a view `NAME_quarantine` for each dataset."""
    connection = connect()
    create_views(connection, data)
    return connection


def write_catalog(data: Path, file: Path) -> list[str]:
    """Write a DuckDB file that holds only views with absolute paths; returns their names.

    Replaces a DuckDB file at `file`, never a file of another kind.
    """
    if file.exists() and not _is_duckdb(file):
        raise UserError(f"{file} is not a DuckDB file; it was left as it is", fix="name a new file")
    if not file.parent.is_dir():
        raise UserError(f"no folder {file.parent}", fix=f"mkdir -p {shlex.quote(str(file.parent))}")
    work = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        with duckdb.connect(str(work)) as connection:
            names = create_views(connection, data.resolve())
        os.replace(work, file)
    finally:
        work.unlink(missing_ok=True)
    return names


def _is_duckdb(file: Path) -> bool:
    with file.open("rb") as stream:
        return stream.read(12)[8:] == b"DUCK"


def create_views(connection: duckdb.DuckDBPyConnection, data: Path) -> list[str]:
    """Make the views; returns their names. `UserError` names a dataset that cannot be read."""
    folders = dataset_folders(data)
    if not folders:
        raise UserError(f"no dataset in {data}/", fix="dvc repro")
    names = []
    for folder in folders:
        for view, pattern in (
            (folder.name, folder / "part-*.parquet"),
            (f"{folder.name}_quarantine", folder / "_quarantine" / "part-*.parquet"),
        ):
            try:
                connection.execute(
                    f"CREATE VIEW {name(view)} AS SELECT * FROM read_parquet({quoted(pattern)})"
                )
            except (duckdb.IOException, duckdb.InvalidInputException) as error:
                raise untrusted(folder, str(error).splitlines()[0]) from error
            names.append(view)
    return names
