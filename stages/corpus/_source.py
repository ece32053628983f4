"""What a variant hands to the shared pipeline, item by item.

A variant is a function that yields these; the pipeline (`_pipeline`) counts every item once, so
that `in = out + quarantined + dropped` holds whatever a source contains.
"""

from __future__ import annotations

from dataclasses import dataclass

from schemas.write import DatasetWriter


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
class Rejected:
    """An input that cannot become a row; it goes to the quarantine with where and why."""

    source: str
    rule: str
    reason: str
    content: str


@dataclass(frozen=True)
class Dropped:
    """An input that is left out on purpose; it is counted under `reason`."""

    reason: str


def is_unicode(*texts: str | None) -> bool:
    """Whether all texts can be written as UTF-8 (JSON can smuggle in half of a surrogate pair)."""
    try:
        for text in texts:
            (text or "").encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def excerpt(value: object, limit: int = 500) -> str:
    """A value as text for the quarantine: short, and valid Unicode."""
    return str(value)[:limit].encode("utf-8", "backslashreplace").decode("utf-8")


def reject(writer: DatasetWriter, item: Rejected) -> None:
    """Quarantine an item."""
    writer.reject(source=item.source, rule=item.rule, reason=item.reason, content=item.content)
