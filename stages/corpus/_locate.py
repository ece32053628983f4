"""Finding the sentence that states a triple."""

from __future__ import annotations

import re
from functools import lru_cache

from stages.corpus._chunks import Span, sentence_spans


def stating_sentence(text: str, head: str, tail: str) -> Span | None:
    """The first sentence that names both head and tail as whole words; None if there is none.

    Case does not count. A fact told over two sentences, or with a pronoun, has no sentence.
    """
    patterns = [_whole(head), _whole(tail)]
    for start, end in _sentences(text):
        if all(pattern.search(text, start, end) for pattern in patterns):
            return start, end
    return None


def names(text: str, name: str) -> bool:
    """Whether the text has the name as whole words; case does not count."""
    return bool(name.strip()) and _whole(name).search(text) is not None


@lru_cache(maxsize=4)  # triples come document by document
def _sentences(text: str) -> list[Span]:
    return sentence_spans(text)


def _whole(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(name.strip())}(?!\w)", re.IGNORECASE)
