"""Documents out of one file, by its extension: .txt, .md, .jsonl and .parquet.

Each reader yields a document or a rejected row with its place; only a file that is not what its
extension says (a Parquet file that cannot be opened, or without `text`) stops the stage. A
reader holds one row, or one text file, in memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from schemas.errors import UserError
from stages.corpus._source import SourceDocument
from stages.runtime.rejected import Rejected, excerpt

_HEADING = re.compile(r"^#{1,6}[ \t]+(.*?)[ \t#]*$", re.MULTILINE)
_OPTIONAL = ("title", "lang", "licence", "id")
_BATCH = 512

Items = Iterator[SourceDocument | Rejected]


def read_text(path: Path, name: str) -> Items:
    """The whole file as one document, titled by its name."""
    yield _whole_file(path, name, lambda text: path.stem)


def read_markdown(path: Path, name: str) -> Items:
    """The whole file as one document, titled by its first heading."""

    def title(text: str) -> str:
        heading = _HEADING.search(text)
        return heading.group(1) if heading and heading.group(1) else path.stem

    yield _whole_file(path, name, title)


def read_jsonl(path: Path, name: str) -> Items:
    """One JSON object a line, with `text` and perhaps title, lang, licence and id."""
    for source, value in json_lines(path, name):
        yield value if isinstance(value, Rejected) else _from_fields(value, source)


def read_parquet(path: Path, name: str) -> Items:
    """One row a document, with the columns of JSONL; read in batches."""
    import duckdb

    from schemas.duck import connect, quoted

    with connect() as connection:
        try:
            file = f"read_parquet({quoted(path)})"
            columns = connection.sql(f"SELECT * FROM {file}").columns
            if "text" not in columns:
                raise UserError(
                    f"{path} has no column 'text'; its columns are {columns}",
                    fix="rename the column that holds the text to 'text'",
                )
            chosen = ", ".join(c for c in ("text", *_OPTIONAL) if c in columns)
            rows = connection.sql(f"SELECT {chosen} FROM {file}")
            number = 0
            for batch in rows.to_arrow_reader(_BATCH):
                for row in batch.to_pylist():
                    number += 1
                    yield _from_fields(row, f"{name}:{number}")
        except duckdb.Error as error:
            raise UserError(
                f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}",
                fix="write the file again, or move it out of the folder",
            ) from error


READERS: dict[str, Callable[[Path, str], Items]] = {
    ".txt": read_text,
    ".md": read_markdown,
    ".jsonl": read_jsonl,
    ".parquet": read_parquet,
}


def json_lines(path: Path, name: str) -> Iterator[tuple[str, dict[str, Any] | Rejected]]:
    """(file:line, object) of each line that is not blank; what is no object is rejected."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            if not raw.strip():
                continue
            source = f"{name}:{number}"
            shown = excerpt(raw.decode("utf-8", "replace").strip())
            try:
                value = json.loads(raw.decode("utf-8-sig" if number == 1 else "utf-8"))
            except UnicodeDecodeError as error:
                yield source, Rejected(source, "invalid_utf8", str(error.reason), shown)
                continue
            except (ValueError, RecursionError) as error:
                reason = str(error) or "nested too deeply"
                yield source, Rejected(source, "malformed_json", reason, shown)
                continue
            if isinstance(value, dict):
                yield source, value
            else:
                yield source, Rejected(source, "malformed_json", "not a JSON object", shown)


def _whole_file(path: Path, name: str, title: Callable[[str], str]) -> SourceDocument | Rejected:
    raw = path.read_bytes()
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        reason = f"{error.reason} at byte {error.start}"
        return Rejected(name, "invalid_utf8", reason, excerpt(raw[:500].decode("utf-8", "replace")))
    return SourceDocument(title(text), text, name)


def _from_fields(fields: Mapping[str, Any], source: str) -> SourceDocument | Rejected:
    """A row of JSONL or Parquet, or why it is none. Other fields are left alone."""
    text = fields.get("text")
    given = {key: fields[key] for key in _OPTIONAL if fields.get(key) is not None}
    if isinstance(given.get("id"), int) and not isinstance(given["id"], bool):
        given["id"] = str(given["id"])
    if text is None:
        return Rejected(source, "text_missing", "there is no 'text'", excerpt(dict(fields)))
    wrong = [key for key, value in {"text": text, **given}.items() if not isinstance(value, str)]
    if wrong:
        reason = f"'{wrong[0]}' is not a string"
        return Rejected(source, f"{wrong[0]}_not_a_string", reason, excerpt(dict(fields)))
    return SourceDocument(
        title=given.get("title", ""),
        text=text,
        source=source,
        lang=given.get("lang", "und"),
        licence=given.get("licence"),
        user_id=given.get("id"),
    )
