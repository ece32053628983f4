"""The documents read so far, on disk: found by content id, by the user's id or by title.

The pipeline needs the texts twice (a tokenizer is made before anything can be counted) and looks
documents up for the triples; a scratch SQLite file keeps the memory bounded whatever the corpus.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from schemas.ids import content_id
from stages.corpus._source import SourceDocument

Added = Literal["new", "duplicate", "duplicate_id"]


@dataclass(frozen=True)
class Spooled:
    """A document as it was spooled, with its content id."""

    doc_id: str
    title: str
    text: str
    lang: str
    source: str
    licence: str | None


@dataclass(frozen=True)
class SpooledChunk:
    """A chunk with its text; `start` is its place in the document."""

    doc_id: str
    title: str
    source: str
    position: int
    start: int
    text: str


class Spool:
    """Documents in the order of their coming, each content once."""

    def __init__(self, file: Path) -> None:
        self._db = sqlite3.connect(file, isolation_level=None)
        self._db.executescript(
            "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;"
            "CREATE TABLE documents (place INTEGER PRIMARY KEY, doc_id TEXT UNIQUE, title TEXT,"
            " text TEXT, lang TEXT, source TEXT, licence TEXT);"
            "CREATE TABLE user_ids (user_id TEXT PRIMARY KEY, doc_id TEXT) WITHOUT ROWID;"
            "CREATE TABLE seen (id TEXT PRIMARY KEY) WITHOUT ROWID;"
            "CREATE TABLE chunks (doc_id TEXT, position INTEGER, char_start INTEGER,"
            " char_end INTEGER);"
            "CREATE INDEX by_title ON documents (title); BEGIN;"
        )

    def add(self, document: SourceDocument) -> Added:
        """Take a document in. `duplicate_id`: its user id already names another content."""
        doc_id = content_id(document.title, document.text)
        if document.user_id is not None:
            self._db.execute(
                "INSERT OR IGNORE INTO user_ids VALUES (?, ?)", [document.user_id, doc_id]
            )
            if self._by_user_id(document.user_id) != doc_id:
                return "duplicate_id"
        added = self._db.execute(
            "INSERT OR IGNORE INTO documents VALUES (NULL, ?, ?, ?, ?, ?, ?)",
            [doc_id, document.title, document.text, document.lang, document.source,
             document.licence],
        )  # fmt: skip
        return "new" if added.rowcount else "duplicate"

    def documents(self) -> Iterator[Spooled]:
        for row in self._db.execute(
            "SELECT doc_id, title, text, lang, source, licence FROM documents ORDER BY place"
        ):
            yield Spooled(*row)

    def texts(self) -> Iterator[str]:
        """Title and text of every document, each content once."""
        for document in self.documents():
            yield document.title
            yield document.text

    def find(self, doc_id: str | None, title: str | None) -> list[tuple[str, str]]:
        """(doc_id, text) of the documents that a reference means: one if it is sound."""
        if doc_id is not None:
            where, value = "doc_id = ?", self._by_user_id(doc_id) or doc_id
        else:
            where, value = "title = ?", title or ""
        return self._db.execute(
            f"SELECT doc_id, text FROM documents WHERE {where} LIMIT 2", [value]
        ).fetchall()

    def add_chunks(self, doc_id: str, spans: Iterable[tuple[int, int, int]]) -> None:
        """Keep where the chunks of a document lie, for whoever reads them again."""
        self._db.executemany(
            "INSERT INTO chunks VALUES (?, ?, ?, ?)",
            ((doc_id, position, start, end) for position, (start, end, _) in enumerate(spans)),
        )

    def chunks(self) -> Iterator[SpooledChunk]:
        """The chunks that were kept, document by document."""
        for doc_id, title, text, source, position, start, end in self._db.execute(
            "SELECT d.doc_id, title, text, source, position, char_start, char_end"
            " FROM chunks c JOIN documents d USING (doc_id) ORDER BY place, position"
        ):
            yield SpooledChunk(doc_id, title, source, position, start, text[start:end])

    def first_time(self, item: str) -> bool:
        """Whether this id has not been asked for before."""
        added = self._db.execute("INSERT OR IGNORE INTO seen VALUES (?)", [item])
        return bool(added.rowcount)

    def close(self) -> None:
        self._db.close()

    def _by_user_id(self, user_id: str) -> str | None:
        row = self._db.execute(
            "SELECT doc_id FROM user_ids WHERE user_id = ?", [user_id]
        ).fetchone()
        return None if row is None else str(row[0])
