"""HotpotQA (arXiv 1809.09600): paragraphs are lists of sentences, [title, [sentence, ...]].

A document's text is its sentences in order, joined as they come (HotpotQA's sentences bring
their own leading space; where there is none, one is put in), so that each sentence is found in it
by its stripped text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stages.benchmarks.passages import Passage, passage
from stages.runtime.rejected import Rejected


def paragraph(value: Any, source: str) -> Passage | Rejected:
    """One entry of a question's `context`."""
    title, sentences = value if isinstance(value, list) and len(value) == 2 else (None, None)
    return passage(title, join_sentences(sentences), source)


def join_sentences(sentences: Any) -> str | None:
    """One text from a paragraph's sentences; None when they are not a list of strings."""
    if not (isinstance(sentences, list) and all(isinstance(s, str) for s in sentences)):
        return None
    return "".join(_pieces(sentences)).strip()


def sentence_span(sentences: Sequence[str], number: int) -> tuple[int, int]:
    """Where sentence `number` stands in the joined text; an empty span if it is white space."""
    pieces = _pieces(sentences)
    whole = "".join(pieces)
    before = "".join(pieces[:number])
    piece = pieces[number]
    start = len(before) + len(piece) - len(piece.lstrip()) - (len(whole) - len(whole.lstrip()))
    return start, start + len(piece.strip())


def _pieces(sentences: Sequence[str]) -> list[str]:
    """The sentences, each with the space that it needs before it."""
    pieces: list[str] = []
    last = " "
    for sentence in sentences:
        apart = last.isspace() or not sentence or sentence[0].isspace()
        pieces.append(sentence if apart else f" {sentence}")
        last = sentence[-1] if sentence else last
    return pieces
