"""Reading datasets: whole, checked, and in the order of their key.

    rows = Dataset.open(Path("data/questions")).rows("split = 'test'")

A dataset is opened against its `_meta.json`: a missing, cut or altered shard is found before its
first row is used, and the error names the shard and the command that restores it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from schemas.duck import connect, name, quoted
from schemas.errors import UserError
from schemas.write import file_hash

_BATCH = 512


@dataclass(frozen=True)
class Dataset:
    """One published dataset: its folder and its `_meta.json`."""

    folder: Path
    meta: dict[str, Any]

    @classmethod
    def open(cls, folder: Path, *, verify: bool = True) -> Dataset:
        """Open a dataset; with `verify`, compare each shard's hash with the recorded one."""
        meta_file = folder / "_meta.json"
        if not meta_file.exists():
            raise UserError(
                f"no dataset at {folder}", fix="dvc repro, or `dvc checkout` to restore a past one"
            )
        try:
            meta = json.loads(meta_file.read_text(encoding="utf-8"))
            shards = [(str(shard["file"]), str(shard["sha256"])) for shard in meta["shards"]]
            int(meta["accounting"]["out"])
        except (ValueError, KeyError, TypeError) as error:
            raise untrusted(folder, f"{type(error).__name__}: {error}", meta_file) from error
        dataset = cls(folder, meta)
        if verify:
            for file, sha256 in shards:
                path = folder / file
                if not path.exists():
                    raise untrusted(folder, "the shard is missing", path)
                if file_hash(path) != sha256:
                    raise untrusted(folder, "its bytes are not those that were written", path)
        return dataset

    @property
    def row_count(self) -> int:
        return int(self.meta["accounting"]["out"])

    def files(self) -> list[Path]:
        return [self.folder / shard["file"] for shard in self.meta["shards"]]

    def source(self) -> str:
        """This dataset as an SQL table expression."""
        return f"read_parquet([{', '.join(quoted(path) for path in self.files())}])"

    def rows(
        self,
        where: str = "true",
        columns: Sequence[str] | None = None,
        parameters: Sequence[Any] = (),
    ) -> Iterator[dict[str, Any]]:
        """The rows that meet an SQL condition, in the order of the key, a batch at a time."""
        chosen = "*" if columns is None else ", ".join(name(column) for column in columns)
        order = ", ".join(name(column) for column in self.meta["key"])
        with connect() as connection:
            try:
                result = connection.sql(
                    f"SELECT {chosen} FROM {self.source()} WHERE {where} ORDER BY {order}",
                    params=list(parameters),
                )
                for batch in result.to_arrow_reader(_BATCH):
                    yield from batch.to_pylist()
            except (duckdb.IOException, duckdb.InvalidInputException) as error:
                raise untrusted(self.folder, str(error).splitlines()[0]) from error


def untrusted(folder: Path, what: str, file: Path | None = None) -> UserError:
    """What is wrong with a dataset (or one file of it), and the command that restores it."""
    place = shlex.quote(str(folder))
    return UserError(
        f"{file or folder} cannot be trusted: {what}",
        fix=f"rm -r {place} && dvc checkout {place}  (where DVC's cache lacks it: rm -r {place} "
        "&& dvc repro)",
    )
