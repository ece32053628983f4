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

from stages.metrics.mention import Boundary, name_form, occurs
from stages.metrics.text import fold

__all__ = ["Boundary", "entity_recall"]


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
    forms = {name_form(entity) for entity in entities}
    folded = fold(text)
    hits = sum(occurs(form, folded, boundary) for form in forms)
    return hits / len(forms)
