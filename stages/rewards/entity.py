"""Entity recall: the share of gold entities that a text names.

LongTraceRL (arXiv 2605.31584), rubric reward. Its released code matches substrings, so that
`Ann` is found in `annual`, and drops every script but Latin and CJK, so that a Cyrillic entity
becomes the empty string and is always found (methods.md section 6, defect 2).

Guarantees: the result is in [0, 1]; an entity without letters, digits or symbols is never a hit;
with `boundary="word"` (default) an entity must stand between word boundaries. Between characters
of a script without spaces, and in Hangul, every position is a boundary. Not covered: inflected
forms (a Russian genitive is another word).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from stages.metrics.text import fold, is_unspaced

Boundary = Literal["word", "substring"]

_ARTICLES = ("the ", "an ", "a ")


def entity_recall(entities: Collection[str], text: str, boundary: Boundary = "word") -> float:
    """Share of the distinct `entities` whose comparable form occurs in that of `text`.

    Entities that fold to the same form count once, and a leading English article of an entity
    is optional in the text. Raises ValueError without entities.
    """
    if isinstance(entities, str):
        raise ValueError("entities must be a collection of names, not one string")
    if not entities:
        raise ValueError("entity recall is undefined without gold entities")
    if boundary not in ("word", "substring"):
        raise ValueError(f"boundary must be 'word' or 'substring', not {boundary!r}")
    forms = {_without_article(fold(entity)) for entity in entities}
    folded = fold(text)
    hits = sum(_occurs(form, folded, boundary) for form in forms)
    return hits / len(forms)


def _without_article(form: str) -> str:
    for article in _ARTICLES:
        if form.startswith(article):
            return form.removeprefix(article)
    return form


def _occurs(form: str, text: str, boundary: Boundary) -> bool:
    if not form:
        return False
    if boundary == "substring":
        return form in text
    start = text.find(form)
    while start >= 0:
        if _is_boundary(text, start) and _is_boundary(text, start + len(form)):
            return True
        start = text.find(form, start + 1)
    return False


def _is_boundary(text: str, position: int) -> bool:
    """Whether a word may begin or end between `position - 1` and `position`."""
    if position == 0 or position == len(text):
        return True
    before, after = text[position - 1], text[position]
    return before == " " or after == " " or is_unspaced(before) or is_unspaced(after)
