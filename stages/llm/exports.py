"""Stores as files: export, merge, prune, and what is in one.

An export is JSON lines, one answer each, in the order of the keys, so that equal stores give equal
files; with `.zst` at the end of its name it is compressed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.errors import UserError
from stages.llm.store import Entry, Store, pack, readable, unpack

_AT_ONCE = 1_000


@dataclass(frozen=True)
class Merged:
    """What a merge did. `differ` of the `known` have another answer here; the one here stayed."""

    new: int
    known: int
    differ: int


def export(store: Store, file: Path) -> int:
    """Write every answer; returns how many. The file is there whole or not at all."""
    work = file.with_name(f".{file.name}.{os.getpid()}")
    number = 0
    try:
        with _open(work, "wb", file.suffix == ".zst") as stream:
            for number, entry in enumerate(store.entries(), start=1):  # noqa: B007
                stream.write(json.dumps(_as_dict(entry), sort_keys=True).encode() + b"\n")
        os.replace(work, file)
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror or error}") from error
    finally:
        work.unlink(missing_ok=True)
    return number


def merge(store: Store, source: Path) -> Merged:
    """Bring in the answers of another store's folder, or of an export."""
    new = known = differ = 0
    for entries in _batches(_read(source)):
        here = store.get([entry.key for entry in entries])
        fresh = {entry.key: entry for entry in entries if entry.key not in here}
        new += store.put(fresh.values())
        known += len(entries) - len(fresh)
        differ += sum(
            _said(here[entry.key].text, here[entry.key].logprobs)
            != _said(entry.answer.text, entry.answer.logprobs)
            for entry in entries
            if entry.key in here
        )
    return Merged(new, known, differ)


def prune(
    store: Store,
    older_than: float | None = None,
    model: str | None = None,
    max_bytes: int | None = None,
) -> int:
    """Remove the answers of a model, those older than so many seconds (both, where both are
    given), and then the oldest until the rest takes no more than `max_bytes`. Returns how many."""
    removed = 0
    rules: list[str] = []
    values: list[str | int] = []
    if older_than is not None:
        rules.append("created < ?")
        values.append(int(time.time() - older_than))
    if model is not None:
        rules.append("model = ?")
        values.append(model)
    connection = store.connection
    with readable(store.folder):
        if rules:
            condition = " AND ".join(rules)
            removed += connection.execute(f"DELETE FROM answers WHERE {condition}", values).rowcount
        if max_bytes is not None:
            removed += connection.execute(
                "DELETE FROM answers WHERE key IN (SELECT key FROM (SELECT key, "
                "sum(length(answer)) OVER (ORDER BY created DESC, key) AS kept FROM answers) "
                "WHERE kept > ?)",
                (max_bytes,),
            ).rowcount
        connection.executescript("PRAGMA incremental_vacuum;")  # execute would take one step
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return removed


def stats(store: Store) -> dict[str, Any]:
    """Answers and bytes, in all and by model."""
    rows = store.connection.execute(
        "SELECT model, count(*), sum(length(answer)), min(created), max(created), "
        "group_concat(DISTINCT backend) FROM answers GROUP BY model ORDER BY model"
    ).fetchall()
    statuses = store.connection.execute(
        "SELECT status, count(*) FROM answers GROUP BY status ORDER BY status"
    ).fetchall()
    files = [path for path in store.folder.glob("answers.sqlite*") if path.is_file()]
    return {
        "answers": sum(row[1] for row in rows),
        "bytes": sum(row[2] for row in rows),
        "bytes_on_disk": sum(path.stat().st_size for path in files),
        "statuses": dict(statuses),
        "models": [
            {
                "model": row[0], "answers": row[1], "bytes": row[2], "oldest": row[3],
                "newest": row[4], "backends": row[5].split(","),
            }
            for row in rows
        ],
    }  # fmt: skip


def _read(source: Path) -> Iterator[Entry]:
    if not source.exists():
        raise UserError(f"no store or export at {source}")
    if source.is_dir():
        if not (source / "answers.sqlite").exists():
            raise UserError(f"the folder {source} is no store: it has no answers.sqlite")
        other = Store.open(source)
        try:
            yield from other.entries()
        finally:
            other.close()
        return
    number = 0
    try:
        with _open(source, "rb", source.suffix == ".zst") as stream:
            for line in stream:
                number += 1
                yield _as_entry(json.loads(line))
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise UserError(
            f"{source}, line {number}: not an answer of an export: {error}",
            fix="export again; the answers before that line were merged",
        ) from error


def _open(path: Path, mode: str, compressed: bool) -> Any:
    if not compressed:
        return path.open(mode)
    import pyarrow as pa

    if mode == "wb":
        return pa.CompressedOutputStream(str(path), "zstd")
    import io

    return io.BufferedReader(pa.CompressedInputStream(str(path), "zstd"))


def _as_dict(entry: Entry) -> dict[str, Any]:
    return {
        "key": entry.key, "model": entry.model, "backend": entry.backend,
        "created": entry.created, "answer": json.loads(pack(entry.answer)),
    }  # fmt: skip


def _as_entry(values: dict[str, Any]) -> Entry:
    answer = unpack(json.dumps(values["answer"]).encode())
    bytes.fromhex(values["key"])
    return Entry(
        values["key"], str(values["model"]), str(values["backend"]), int(values["created"]), answer
    )


def _said(text: str | None, logprobs: tuple[float, ...] | None) -> tuple[Any, ...]:
    """What an answer says, without what it took."""
    return text, logprobs


def _batches(entries: Iterator[Entry]) -> Iterator[list[Entry]]:
    some: list[Entry] = []
    for entry in entries:
        some.append(entry)
        if len(some) == _AT_ONCE:
            yield some
            some = []
    if some:
        yield some
