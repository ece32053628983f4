"""What a variant hands to the shared pipeline, item by item.

A variant is a function that yields these; the pipeline (`_pipeline`) counts every item once, so
that `in = out + quarantined + dropped` holds whatever a source contains.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SourceDocument:
    """A text as its source gives it. `user_id` is the source's own name for it, if it has one."""

    title: str
    text: str
    source: str
    lang: str = "und"
    licence: str | None = None
    user_id: str | None = None


@dataclass(frozen=True)
class SourceTriple:
    """An edge and the document that states it.

    The document is named by `doc_id` (a content id, or the `user_id` of a document) or by
    `title`. `span` is the stating sentence when the source knows it; else the pipeline looks for
    the first sentence that names both head and tail.
    """

    head: str
    relation: str
    tail: str
    source: str
    doc_id: str | None = None
    title: str | None = None
    head_type: str | None = None
    tail_type: str | None = None
    span: tuple[int, int] | None = None


@dataclass(frozen=True)
class Dropped:
    """An input that is left out on purpose; it is counted under `reason`."""

    reason: str
