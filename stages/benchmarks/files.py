"""The files of a benchmark: single JSON values, each in memory while it is read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from schemas.errors import UserError
from stages.runtime.rejected import Rejected, excerpt


def load_json(folder: str, name: str, key: str, expected: type) -> Any:
    """The JSON file `name` of `folder`, with the outermost type it must have.

    `key` is the parameter that names the file, such as `corpus.questions`; errors name it.
    """
    place = Path(folder)
    path = place / name
    if not path.is_file():
        stage = key.partition(".")[0]
        raise UserError(
            f"{key}: no file '{path}'",
            allowed=[p.name for p in place.glob("*.json")] if place.is_dir() else None,
            fix=f"put the file into {place}/, or correct {stage}.path and {key}",
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
            fix=f"{key} must be the benchmark's own file",
        )
    return value


def question_lists(
    questions: list[Any], name: str, field: str
) -> Iterator[tuple[str, dict[str, Any] | Rejected]]:
    """(place, question) of each question that has a list in `field`; the others are rejected."""
    for number, question in enumerate(questions):
        source = f"{name}[{number}]"
        if isinstance(question, dict) and isinstance(question.get(field), list):
            yield source, question
        else:
            reason = f"there is no list '{field}'"
            yield source, Rejected(source, "malformed_question", reason, excerpt(question))


_NAMES: dict[type, str] = {list: "list", dict: "object"}
