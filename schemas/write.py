"""Writing a dataset: rows in, byte-stable Parquet shards out, nothing lost on the way.

    writer = DatasetWriter(load_contract("questions"), work_folder)
    writer.add({...})                       # a row
    writer.drop("no_path")                  # an input unit that becomes no row, with its reason
    writer.reject(source, rule, reason, x)  # an input that cannot even be a row
    result = writer.finish(rows_in=100)     # checks, shards, quarantine, accounting

The folder then holds `part-00000.parquet ...` cut by ranges of the key, `_quarantine/`,
`_validation.json` and `_meta.json`. Each shard is one DuckDB COPY in the total order of the key,
with fixed row groups and codec: the same rows give the same bytes, in whatever order they came.
`rows_in = rows + quarantined + dropped` always holds, or `finish` raises.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from schemas.checks import RuleResult, judge
from schemas.contract import Contract, Rule
from schemas.duck import MEMORY_LIMIT, name, quoted
from schemas.errors import UserError

_BATCH_ROWS = 1_000
_BATCH_CHARS = 16_000_000
_COPY = "(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 2048)"
_UNIQUE = "key_unique"


@dataclass(frozen=True)
class DatasetResult:
    """What was written, for the metrics file and for the log."""

    name: str
    rows_in: int
    rows: int
    quarantined: dict[str, int]
    dropped: dict[str, int]
    rules: tuple[RuleResult, ...]

    def accounting(self) -> dict[str, Any]:
        """in = out + quarantined(rule) + dropped(reason), as numbers."""
        return {
            "in": self.rows_in,
            "out": self.rows,
            "quarantined": dict(sorted(self.quarantined.items())),
            "dropped": dict(sorted(self.dropped.items())),
        }


@dataclass(frozen=True)
class Bound:
    """The share of rows in quarantine that is tolerated: whose it is, and where to raise it."""

    share: float
    whose: str
    where: str

    @classmethod
    def of(cls, contract: Contract) -> Bound:
        where = f"quarantine_bound in schemas/contracts/{contract.name}.yaml"
        return cls(contract.quarantine_bound, "the contract", where)


class DatasetWriter:
    """Collects the rows of one dataset in a scratch database of `folder`, then writes shards."""

    def __init__(self, contract: Contract, folder: Path) -> None:
        self.contract = contract
        self.folder = folder
        folder.mkdir(parents=True)
        self._scratch = folder / "_scratch.duckdb"
        self._db = duckdb.connect(
            str(self._scratch), config={"threads": 1, "memory_limit": MEMORY_LIMIT}
        )
        self._db.execute(contract.create_table("rows"))
        self._schema = self._db.sql("SELECT * FROM rows LIMIT 0").to_arrow_table().schema
        self._columns = contract.column_names()
        self._db.execute(
            "CREATE TABLE quarantine (key VARCHAR, rule VARCHAR, reason VARCHAR, "
            "source VARCHAR, content VARCHAR)"
        )
        self._buffer: list[dict[str, Any]] = []
        self._chars = 0
        self._added = 0
        self._rejected: Counter[str] = Counter()
        self._dropped: Counter[str] = Counter()

    def add(self, row: Mapping[str, Any]) -> None:
        """Add one row. Its fields must be the contract's columns, all of them and no other."""
        if row.keys() != set(self._columns):
            raise ValueError(
                f"{self.contract.name}: row fields differ from the contract's columns: "
                f"{sorted(set(row) ^ set(self._columns))}"
            )
        self._buffer.append(dict(row))
        self._added += 1
        self._chars += sum(len(value) for value in row.values() if isinstance(value, str))
        if len(self._buffer) >= _BATCH_ROWS or self._chars >= _BATCH_CHARS:
            self._flush()

    def drop(self, reason: str, count: int = 1) -> None:
        """Count inputs that become no row, with the reason."""
        self._dropped[reason] += count

    def reject(self, *, source: str, rule: str, reason: str, content: str) -> None:
        """Quarantine an input that could not be made into a row; `source` is file:line."""
        self._rejected[rule] += 1
        self._db.execute(
            "INSERT INTO quarantine VALUES (NULL, ?, ?, ?, ?)", [rule, reason, source, content]
        )

    def finish(self, rows_in: int, bound: Bound | None = None) -> DatasetResult:
        """Check the contract and the accounting, and write the shards. Call once.

        `bound` takes the place of the contract's where a stage declares its own.
        """
        self._flush()
        result = self._check(rows_in, bound or Bound.of(self.contract))
        shards = self._write_shards(result.rows)
        self._write_quarantine()
        meta = {
            "dataset": self.contract.name,
            "contract": self.contract.hash,
            "key": list(self.contract.key),
            "columns": {column.name: column.type for column in self.contract.columns},
            "accounting": result.accounting(),
            "shards": shards,
        }
        _write_json(self.folder / "_meta.json", meta)
        self.close()
        return result

    def close(self) -> None:
        """Close and remove the scratch database; safe to call twice."""
        self._db.close()
        self._scratch.unlink(missing_ok=True)
        self._scratch.with_suffix(".duckdb.wal").unlink(missing_ok=True)

    def _flush(self) -> None:
        if not self._buffer:
            return
        try:
            batch = pa.Table.from_pylist(self._buffer, schema=self._schema)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise ValueError(f"{self.contract.name}: {error}") from error
        self._db.register("batch", batch)
        self._db.execute("INSERT INTO rows SELECT * FROM batch")
        self._db.unregister("batch")
        self._buffer.clear()
        self._chars = 0

    def _check(self, rows_in: int, bound: Bound) -> DatasetResult:
        contract = self.contract
        key = ", ".join(name(column) for column in contract.key)
        unique = Rule(_UNIQUE, "", "quarantine", f"another row has the same key ({key})")
        rules = (unique, *contract.row_rules)
        flags = [f"{_flag(rule, contract)} AS {name(rule.name)}" for rule in rules[1:]]
        profile = [f"CAST(({sql}) AS DOUBLE) AS {name(n)}" for n, sql in contract.profile.items()]
        self._db.execute(
            f"CREATE TABLE flags AS SELECT rowid AS id, "
            f"row_number() OVER (PARTITION BY {key} ORDER BY rowid) = 1 AS {_UNIQUE}, "
            f"{', '.join(flags + profile)} FROM rows ORDER BY id"
        )
        frame = self._db.execute("SELECT * EXCLUDE (id) FROM flags ORDER BY id").df()
        results, validation = judge(contract, frame, rules, bound.share)
        for index, rule in enumerate(rules):
            if rule.severity == "quarantine" and results[index].broken:
                self._quarantine(rule)
        table = self._db.execute(
            "SELECT "
            + ", ".join(
                [f"COALESCE(({rule.sql}), false) AS {name(rule.name)}" for rule in
                 contract.table_rules] or ["true AS no_table_rules"]
            )
            + " FROM rows"
        ).df()  # fmt: skip
        if contract.table_rules:
            table_results, table_validation = judge(contract, table, contract.table_rules, 0.0)
            results += table_results
            validation["results"] += table_validation["results"]
            for count in ("evaluated_expectations", "successful_expectations",
                          "unsuccessful_expectations"):  # fmt: skip
                validation["statistics"][count] += table_validation["statistics"][count]
        _write_json(self.folder / "_validation.json", validation)
        quarantined = Counter(
            dict(self._db.execute("SELECT rule, count(*) FROM quarantine GROUP BY rule").fetchall())
        )
        rows = int(self._db.execute("SELECT count(*) FROM rows").fetchall()[0][0])
        self._stop_if_broken(results, quarantined, rows_in, bound)
        out = rows + quarantined.total() + self._dropped.total()
        if out != rows_in:
            raise RuntimeError(
                f"{contract.name}: row accounting is wrong: {rows_in} in, but {rows} out + "
                f"{quarantined.total()} quarantined + {self._dropped.total()} dropped = {out}"
            )
        return DatasetResult(
            contract.name, rows_in, rows, dict(quarantined), dict(self._dropped), tuple(results)
        )

    def _quarantine(self, rule: Rule) -> None:
        """Move the rows that break a rule; a row goes under the first rule that it breaks."""
        key = " || '/' || ".join(f"CAST({name(column)} AS VARCHAR)" for column in self.contract.key)
        broken = f"SELECT id FROM flags WHERE NOT {name(rule.name)}"
        self._db.execute(
            f"INSERT INTO quarantine SELECT {key}, ?, ?, NULL, CAST(to_json(rows) AS VARCHAR) "
            f"FROM rows WHERE rowid IN ({broken})",
            [rule.name, rule.reason],
        )
        self._db.execute(f"DELETE FROM rows WHERE rowid IN ({broken})")

    def _stop_if_broken(
        self, results: list[RuleResult], quarantined: Counter[str], rows_in: int, bound: Bound
    ) -> None:
        contract = self.contract
        failed = [r for r in results if r.rule.severity == "fail" and not r.passed]
        if failed:
            first = failed[0]
            of_rows = first.rule in contract.row_rules
            share = f"{first.broken} of {first.checked} rows, " if of_rows else ""
            raise UserError(
                f"dataset '{contract.name}' breaks its contract: {first.rule.reason} ({share}"
                f"rule {first.rule.name})",
                fix="correct the input or the stage's settings; the rule is in "
                f"schemas/contracts/{contract.name}.yaml",
            )
        bad = quarantined.total()
        if bad > bound.share * rows_in:
            example = self._db.execute(
                "SELECT rule, reason, COALESCE(source, key) FROM quarantine "
                "ORDER BY source NULLS LAST, key LIMIT 1"
            ).fetchall()[0]
            raise UserError(
                f"dataset '{contract.name}': {bad} of {rows_in} rows break quarantine rules "
                f"{dict(sorted(quarantined.items()))}; {bound.whose} allows a share of "
                f"{bound.share}. First: {example[2]}: {example[1]} (rule {example[0]})",
                fix=f"correct the input, or raise {bound.where}",
            )

    def _write_shards(self, rows: int) -> list[dict[str, Any]]:
        """Cut by equal ranges of the first key column's leading 16 bits (keys are content ids)."""
        shards = 1
        while shards * self.contract.shard_rows < rows:
            shards *= 2
        first = name(self.contract.key[0])
        bucket = f"(CAST('0x' || substr({first}, 1, 4) AS BIGINT) * {shards}) // 65536"
        order = ", ".join(name(column) for column in self.contract.key)
        columns = ", ".join(name(column) for column in self._columns)
        written = []
        for index in range(shards):
            file = self.folder / f"part-{index:05d}.parquet"
            where = "true" if shards == 1 else f"{bucket} = {index}"
            self._db.execute(
                f"COPY (SELECT {columns} FROM rows WHERE {where} ORDER BY {order}) "
                f"TO {quoted(file)} {_COPY}"
            )
            count = self._db.execute(f"SELECT count(*) FROM rows WHERE {where}").fetchall()[0][0]
            written.append({"file": file.name, "rows": int(count), "sha256": file_hash(file)})
        return written

    def _write_quarantine(self) -> None:
        folder = self.folder / "_quarantine"
        folder.mkdir()
        self._db.execute(
            f"COPY (SELECT * FROM quarantine ORDER BY rule, key, source, content) "
            f"TO {quoted(folder / 'part-00000.parquet')} {_COPY}"
        )


def _flag(rule: Rule, contract: Contract) -> str:
    """SQL that is true for a good row; null is not good.

    A row that the quarantine takes is not held to the other rules: they are about what stays.
    """
    flag = f"COALESCE(({rule.sql}), false)"
    if rule.severity == "quarantine":
        return flag
    stays = " AND ".join(
        f"COALESCE(({other.sql}), false)"
        for other in contract.row_rules
        if other.severity == "quarantine"
    )
    return f"({flag} OR NOT ({stays or 'true'}))"


def file_hash(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n", encoding="utf-8")
