"""The user's own documents: a file, or a folder with all that is below it.

    .txt .md    one document a file; the title is the first heading (.md) or the file's name
    .jsonl      one object a line: text, and perhaps title, lang, licence, id
    .parquet    the same as columns

A row that cannot be read is quarantined with `file:line`, and the rest goes on, within the
contract's bound. Files are read in sorted order; hidden files are not read. `README.md` at the
top of the folder tells people what to put there, and is counted as dropped.

`triples`, if given, is a JSONL file of {head, relation, tail, doc_id or title, and perhaps
head_type, tail_type}, where doc_id is a document's `id` or its content id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from schemas.errors import UserError
from stages.corpus._config import CorpusConfig
from stages.corpus._formats import READERS, json_lines
from stages.corpus._pipeline import write_corpus
from stages.corpus._source import Dropped, SourceDocument, SourceTriple
from stages.runtime.context import StageContext
from stages.runtime.progress import say
from stages.runtime.rejected import Rejected, excerpt

_NOTE = "README.md"
_PARTS = ("head", "relation", "tail")
_OPTIONAL = ("doc_id", "title", "head_type", "tail_type")


class Config(CorpusConfig):
    kind: Literal["files"]
    triples: str | None = None


def run(config: Config, context: StageContext) -> dict[str, Any]:
    root = Path(config.path)
    triples = None if config.triples is None else Path(config.triples)
    if triples is not None and not triples.is_file():
        raise UserError(
            f"corpus.triples: no file '{triples}'", fix="correct the path, or set it to null"
        )
    files = list_files(root, leave_out=triples)
    edges = iter(()) if triples is None else _triples(triples)
    return write_corpus(context, config, _documents(root, files), edges)


def list_files(root: Path, leave_out: Path | None) -> list[Path]:
    """The files to read, sorted. `UserError` names the path and the extensions."""
    if not root.exists():
        raise UserError(
            f"corpus.path: no file or folder '{root}'", allowed=READERS,
            fix="put documents with these extensions there, or correct the path",
        )  # fmt: skip
    found = [root] if root.is_file() else sorted(
        (path for path in root.rglob("*") if path.is_file() and not _hidden(path, root)),
        key=lambda path: path.relative_to(root).as_posix(),
    )  # fmt: skip
    if leave_out is not None:
        found = [path for path in found if not path.samefile(leave_out)]
    readable = [path for path in found if path.suffix.lower() in READERS]
    if not [path for path in readable if path != root / _NOTE]:
        others = sorted({path.suffix or path.name for path in found if path not in readable})
        raise UserError(
            f"corpus.path: no file to read in '{root}'"
            + (f" (found {', '.join(others)})" if others else ""),
            allowed=READERS,
            fix="put documents with these extensions there, or correct the path",
        )
    if len(readable) < len(found):
        say(f"{len(found) - len(readable)} files of other kinds in {root} are not read")
    return readable


def _hidden(path: Path, root: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(root).parts)


def _documents(root: Path, files: list[Path]) -> Iterator[SourceDocument | Rejected | Dropped]:
    for path in files:
        name = path.name if path == root else path.relative_to(root).as_posix()
        if path == root / _NOTE:
            yield Dropped("readme_of_the_folder")
        else:
            yield from READERS[path.suffix.lower()](path, name)


def _triples(path: Path) -> Iterator[SourceTriple | Rejected]:
    for source, value in json_lines(path, path.name):
        yield value if isinstance(value, Rejected) else _triple(value, source)


def _triple(fields: Mapping[str, Any], source: str) -> SourceTriple | Rejected:
    parts: dict[str, Any] = {key: fields.get(key) for key in _PARTS}
    given = {key: fields[key] for key in _OPTIONAL if fields.get(key) is not None}
    if type(given.get("doc_id")) is int:
        given["doc_id"] = str(given["doc_id"])
    if not all(isinstance(part, str) and part.strip() for part in parts.values()):
        reason = "head, relation and tail must be strings that are not empty"
    elif not all(isinstance(value, str) for value in given.values()):
        reason = f"{', '.join(given)} must be strings"
    elif not {"doc_id", "title"} & given.keys():
        reason = "it names no document: doc_id or title"
    else:
        return SourceTriple(**parts, source=source, **given)
    return Rejected(source, "malformed_triple", reason, excerpt(dict(fields)))
