"""An input that cannot become a row: where it stood, which rule it broke, and why.

Readers yield these beside what they could read, so that the stage counts every input once and
quarantines what is none.
"""

from __future__ import annotations

from dataclasses import dataclass

from schemas.write import DatasetWriter


@dataclass(frozen=True)
class Rejected:
    """An input that cannot become a row; it goes to the quarantine with where and why."""

    source: str
    rule: str
    reason: str
    content: str


def reject(writer: DatasetWriter, item: Rejected) -> None:
    """Quarantine an item."""
    writer.reject(source=item.source, rule=item.rule, reason=item.reason, content=item.content)


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
