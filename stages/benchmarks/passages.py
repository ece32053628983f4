"""A passage as a benchmark gives it. Its document id is the content id of title and text, in the
corpus and wherever a question refers to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from schemas.ids import content_id
from stages.runtime.rejected import Rejected, excerpt


@dataclass(frozen=True)
class Passage:
    title: str
    text: str
    source: str

    @property
    def doc_id(self) -> str:
        return content_id(self.title, self.text)


def passage(title: Any, text: Any, source: str) -> Passage | Rejected:
    """A passage, or why it is none. `text` is None when its parts were not strings."""
    if isinstance(title, str) and isinstance(text, str):
        return Passage(title, text, source)
    return Rejected(
        source, "malformed_passage", "title and text must be strings", excerpt((title, text))
    )
