"""A contract with a rule of every kind, and writing rows under it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from schemas.contract import Contract, parse_contract
from schemas.ids import content_id
from schemas.write import DatasetResult, DatasetWriter

TEXT = """
description: Things with a number.
key: [id]
columns:
  id: {type: VARCHAR, description: Content id}
  n: {type: BIGINT, description: The number}
  note: {type: VARCHAR, description: What was noted, nullable: true}
row_rules:
  - {name: n_below_100, sql: "n < 100", severity: quarantine, reason: n is 100 or more}
  - {name: n_not_negative, sql: "n >= 0", severity: fail, reason: n is negative}
  - {name: note_short, sql: "length(note) <= 5", severity: warn, reason: the note is long}
table_rules:
  - {name: not_13, sql: "count(*) <> 13", severity: fail, reason: thirteen things}
  - {name: many, sql: "count(*) > 1000", severity: warn, reason: not many things}
profile: {n: n}
quarantine_bound: 0.5
shard_rows: 50
"""

Write = Callable[..., DatasetResult]


def thing(number: int, **values: Any) -> dict[str, Any]:
    return {"id": content_id(number), "n": number % 100, "note": "ok", **values}


@pytest.fixture(scope="session")
def things() -> Contract:
    return parse_contract("things", TEXT)


@pytest.fixture
def write(tmp_path: Path, things: Contract) -> Write:
    """`write(rows, folder="a", rows_in=None)` writes a dataset into `tmp_path/folder`."""

    def run(
        rows: Iterable[Mapping[str, Any]],
        folder: str = "things",
        rows_in: int | None = None,
        contract: Contract = things,
    ) -> DatasetResult:
        writer = DatasetWriter(contract, tmp_path / folder)
        try:
            given = list(rows)
            for row in given:
                writer.add(row)
            return writer.finish(len(given) if rows_in is None else rows_in)
        finally:
            writer.close()

    return run
