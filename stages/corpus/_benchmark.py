"""What the question-answering benchmarks share: their files, and passages found in them.

Every passage of the questions becomes a document, whether the passages file holds it or not;
the pipeline keeps each content once. These files are single JSON values, so each is in memory
while it is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field

from schemas.errors import UserError
from stages.corpus._config import CorpusConfig
from stages.corpus._source import Rejected, SourceDocument, excerpt


class BenchmarkConfig(CorpusConfig):
    """File names inside `path`."""

    questions: str = Field(min_length=1)
    passages: str | None = Field(description="null: only the questions' own paragraphs")
    triples: str | None = Field(description="OpenIE triples of the passages")


def load_json(config: BenchmarkConfig, field: str, expected: type) -> Any:
    """The JSON file that `field` names, with the outermost type it must have."""
    folder = Path(config.path)
    path = folder / str(getattr(config, field))
    if not path.is_file():
        raise UserError(
            f"corpus.{field}: no file '{path}'",
            allowed=[p.name for p in folder.glob("*.json")] if folder.is_dir() else None,
            fix=f"put the file into {folder}/, or correct corpus.path and corpus.{field}",
        )
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{path} is not JSON: {error}", fix="fetch the file again; it may be cut"
        ) from error
    if not isinstance(value, expected):
        raise UserError(
            f"{path}: expected a JSON {_NAMES[expected]}, found {_NAMES.get(type(value), 'value')}",
            fix=f"corpus.{field} must be the benchmark's own file",
        )
    return value


def passage(title: Any, text: Any, source: str, licence: str) -> SourceDocument | Rejected:
    """A document, or why the passage is none. `text` is None when its parts were not strings."""
    if isinstance(title, str) and isinstance(text, str):
        return SourceDocument(title, text, source, lang="en", licence=licence)
    return Rejected(
        source, "malformed_passage", "title and text must be strings", excerpt((title, text))
    )


def question_field(
    questions: list[Any], name: str, field: str
) -> Iterator[tuple[str, list[Any] | Rejected]]:
    """(place, the list in `field`) of each question; a question without it is rejected."""
    for number, question in enumerate(questions):
        source = f"{name}[{number}]"
        value = question.get(field) if isinstance(question, dict) else None
        if isinstance(value, list):
            yield source, value
        else:
            yield (
                source,
                Rejected(
                    source, "malformed_question", f"there is no list '{field}'", excerpt(question)
                ),
            )


_NAMES: dict[type, str] = {list: "list", dict: "object"}
