"""MuSiQue (arXiv 2108.00573): paragraphs are objects with title and paragraph_text."""

from __future__ import annotations

from typing import Any

from stages.benchmarks.passages import Passage, passage
from stages.runtime.rejected import Rejected


def paragraph(value: Any, source: str, text_field: str = "paragraph_text") -> Passage | Rejected:
    """One entry of a question's `paragraphs`, or of a passages file (where the field is `text`)."""
    fields = value if isinstance(value, dict) else {}
    return passage(fields.get("title"), fields.get(text_field), source)
