"""Answers that came, kept on disk from the moment they arrive: nothing is asked or paid for twice.

One SQLite database in write-ahead mode, which several processes of one machine share. An answer is
committed when `put` returns, so killing the process loses none; it is on the disk itself, safe
from a power cut, at most `SYNC` seconds later. The folder must be on a local disk: write-ahead mode
needs memory that processes share, which network file systems do not have. Stores of several
machines are brought together by `longline llm merge`.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from schemas.errors import UserError
from stages.llm.answer import Answer
from stages.llm.identity import file_digest

FORMAT = 1
SYNC = 1.0
KEPT = frozenset({"ok", "length", "empty", "refusal", "nan"})
"""Statuses worth keeping: complete answers, and failures that asking again would not mend."""

_TABLES = """
CREATE TABLE answers (
    key BLOB PRIMARY KEY,
    model TEXT NOT NULL,
    backend TEXT NOT NULL,
    created INTEGER NOT NULL,
    status TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    answer BLOB NOT NULL
);
CREATE INDEX answers_by_age ON answers (created);
CREATE TABLE files (
    path TEXT PRIMARY KEY, size INTEGER NOT NULL, modified INTEGER NOT NULL, digest TEXT NOT NULL
);
"""
_AT_ONCE = 500  # parameters of one statement


@dataclass(frozen=True)
class Entry:
    """An answer under its key, with where it came from."""

    key: str
    model: str
    backend: str
    created: int
    """Seconds since 1970."""
    answer: Answer


class Store:
    """An open store. One connection: use it in the thread that opened it."""

    def __init__(self, folder: Path, connection: sqlite3.Connection) -> None:
        self.folder = folder
        self.connection = connection
        self._synced = time.monotonic()

    @classmethod
    def open(cls, folder: Path) -> Store:
        """Open the store in `folder`, and make it where there is none."""
        with readable(folder):
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / "open.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # one process makes the tables
                connection = sqlite3.connect(
                    folder / "answers.sqlite", timeout=60, isolation_level=None
                )
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
                (found,) = connection.execute("PRAGMA user_version").fetchone()
                if found == 0:
                    connection.executescript(
                        f"BEGIN; {_TABLES} PRAGMA user_version = {FORMAT}; COMMIT;"
                    )
                elif found != FORMAT:
                    raise UserError(
                        f"the store {folder} has format {found}; this version reads {FORMAT}",
                        fix=f"mv {folder} {folder}.old (and merge an export of it)",
                    )
            return cls(folder, connection)

    def close(self) -> None:
        """Bring everything to the disk and close."""
        with readable(self.folder):
            self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            self.connection.close()

    def get(self, keys: Sequence[str]) -> dict[str, Answer]:
        """The answers that are there, by key. A damaged one counts as not there."""
        found = {}
        with readable(self.folder):
            for start in range(0, len(keys), _AT_ONCE):
                some = [bytes.fromhex(key) for key in keys[start : start + _AT_ONCE]]
                marks = ",".join("?" * len(some))
                for key, checksum, data in self.connection.execute(
                    f"SELECT key, checksum, answer FROM answers WHERE key IN ({marks})", some
                ):
                    if zlib.crc32(data) == checksum:
                        found[key.hex()] = unpack(data)
        return found

    def put(self, entries: Iterable[Entry]) -> int:
        """Keep answers, all or none; one that is there already stays. Returns how many are new.

        An answer that is there but damaged is replaced.
        """
        new = 0
        with readable(self.folder), self._transaction():
            for entry in entries:
                data = pack(entry.answer)
                key = bytes.fromhex(entry.key)
                old = self.connection.execute(
                    "SELECT checksum, answer FROM answers WHERE key = ?", (key,)
                ).fetchone()
                if old is not None and zlib.crc32(old[1]) == old[0]:
                    continue
                self.connection.execute(
                    "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (key, entry.model, entry.backend, entry.created, entry.answer.status,
                     zlib.crc32(data), data),
                )  # fmt: skip
                new += 1
        if time.monotonic() - self._synced >= SYNC:
            self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            self._synced = time.monotonic()
        return new

    def entries(self) -> Iterator[Entry]:
        """All answers that are sound, in the order of their keys; damaged ones are passed over."""
        with readable(self.folder):
            for key, model, backend, created, checksum, data in self.connection.execute(
                "SELECT key, model, backend, created, checksum, answer FROM answers ORDER BY key"
            ):
                if zlib.crc32(data) == checksum:
                    yield Entry(key.hex(), model, backend, created, unpack(data))

    def file_digest(self, path: Path) -> str:
        """SHA-256 of a file, computed anew only when its size or time of change is another."""
        state = path.stat()
        known = (str(path.resolve()), state.st_size, state.st_mtime_ns)
        with readable(self.folder):
            row = self.connection.execute(
                "SELECT digest FROM files WHERE path = ? AND size = ? AND modified = ?", known
            ).fetchone()
            if row is not None:
                return str(row[0])
            digest = file_digest(path)
            self.connection.execute(
                "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", (*known, digest)
            )
        return digest

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")


def pack(answer: Answer) -> bytes:
    """An answer as JSON: only what differs from an empty one, so that new fields cost nothing."""
    empty = Answer("ok")
    values = {
        name: value
        for name, value in asdict(answer).items()
        if name == "status" or value != getattr(empty, name)
    }
    return json.dumps(values, sort_keys=True, allow_nan=False).encode()


def unpack(data: bytes) -> Answer:
    values = json.loads(data)
    if values.get("logprobs") is not None:
        values["logprobs"] = tuple(values["logprobs"])
    return Answer(**values)


def store_folder(configured: str) -> Path:
    """Where the store is: LONGLINE_LLM_STORE, so that the cells of an ablation share one."""
    return Path(os.environ.get("LONGLINE_LLM_STORE") or configured)


@contextmanager
def readable(folder: Path) -> Iterator[None]:
    """SQLite's errors as what a user can do about them."""
    try:
        yield
    except sqlite3.Error as error:
        text = str(error)
        if "full" in text:
            raise UserError(
                f"the disk of the store {folder} is full",
                fix="free space, or longline llm prune --max-size 1000, and run again: "
                "the answers that came are kept",
            ) from error
        if "locked" in text or "busy" in text:
            raise UserError(
                f"another process has held the store {folder} for a minute",
                fix="run again when it has ended; every answer that came is kept",
            ) from error
        raise UserError(
            f"the store {folder} cannot be used: {text}",
            fix=f"check that it is a folder on a local disk that you may write; if it is damaged, "
            f"mv {folder} {folder}.damaged and merge an export",
        ) from error
