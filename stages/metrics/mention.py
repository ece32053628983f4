"""Whether a text names something: the comparable form of the name at word boundaries.

Between characters of a script without spaces, and in Hangul, every position is a boundary. Both
`form` and `text` are folded (`name_form`, `stages.metrics.text.fold`); an empty form, of a name
without letters, digits or symbols, is never found.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from stages.metrics.text import fold, is_unspaced

Boundary = Literal["word", "substring"]

_ARTICLES = ("the ", "an ", "a ")


def name_form(name: str) -> str:
    """The comparable form of a name; a leading English article is optional in a text."""
    form = fold(name)
    for article in _ARTICLES:
        if form.startswith(article):
            return form.removeprefix(article)
    return form


def occurs(form: str, text: str, boundary: Boundary = "word") -> bool:
    """Whether the folded text holds the form."""
    if boundary == "substring":
        return bool(form) and form in text
    return next(_places(form, text), None) is not None


def without(form: str, text: str) -> str:
    """The folded text with a gap where it holds the form."""
    end = 0
    parts = []
    for start in _places(form, text):
        if start >= end:
            parts.append(text[end:start])
            end = start + len(form)
    return " ".join([*parts, text[end:]])


def _places(form: str, text: str) -> Iterator[int]:
    start = text.find(form) if form else -1
    while start >= 0:
        if _is_boundary(text, start) and _is_boundary(text, start + len(form)):
            yield start
        start = text.find(form, start + 1)


def _is_boundary(text: str, position: int) -> bool:
    """Whether a word may begin or end between `position - 1` and `position`."""
    if position == 0 or position == len(text):
        return True
    before, after = text[position - 1], text[position]
    return before == " " or after == " " or is_unspaced(before) or is_unspaced(after)
