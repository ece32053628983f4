"""Cutting a text into sentences, and packing sentences into chunks to a token budget.

A sentence ends at `.`, `!`, `?` or an ellipsis before white space, at a CJK full stop, or at an
empty line. No sentence ends after an initial (`J.`, `U.S.`) or a title (`Dr.`), nor before a
lower-case letter; so a sentence that really ends in `U.S.` is joined with the next one.

Guarantees: spans are in order and never overlap, only white space lies outside of them, and no
chunk is over `max_tokens` unless it is one character. The time is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

Span = tuple[int, int]

_END = re.compile(
    r"(?<![.!?\u2026])[.!?\u2026]++[\"'\u201d\u2019\u00bb)\]]*+(?=\s|\Z)"
    r"|[\u3002\uff01\uff1f\uff61]++[\u300d\u300f\uff09\u201d\u2019\u00bb)\]]*+"
    r"|\n\s*\n"
)
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\[\"\u201c\u2018])"
    r"(?:[A-Z\u00c0-\u00de\u0410-\u042f]|(?:[^\W\d_]\.)+[^\W\d_]"
    r"|Mr|Mrs|Ms|Dr|Prof|St|Mt|Gen|Col|Lt|Capt|Sgt|Rev|Hon|Gov|Sen|Rep"
    r"|No|Fig|Eq|vs|cf|ca|approx)\.$"
)
_WORD = re.compile(r"\S+")


def sentence_spans(text: str) -> list[Span]:
    """The sentences, without the white space around them."""
    spans = []
    start = 0
    for match in _END.finditer(text):
        if _is_boundary(text, match):
            spans.append(_trim(text, start, match.end()))
            start = match.end()
    spans.append(_trim(text, start, len(text)))
    return [span for span in spans if span[0] < span[1]]


def chunk_spans(
    text: str, count_tokens: Callable[[str], int], max_tokens: int, max_sentences: int | None
) -> list[tuple[int, int, int]]:
    """(start, end, tokens) of each chunk; a chunk takes sentences until the next is too many.

    A sentence over the budget is cut at white space, and a word over the budget anywhere.
    """
    units: list[tuple[int, int, int]] = []
    for start, end in sentence_spans(text):
        tokens = count_tokens(text[start:end])
        if tokens <= max_tokens:
            units.append((start, end, tokens))
        else:
            for piece in _split(text, start, end, count_tokens, max_tokens):
                units.append((*piece, count_tokens(text[slice(*piece)])))
    chunks = []
    first = 0
    while first < len(units):
        last, tokens = _pack(text, units, first, count_tokens, max_tokens, max_sentences)
        chunks.append((units[first][0], units[last][1], tokens))
        first = last + 1
    return _without_empty(text, chunks, count_tokens)


def _is_boundary(text: str, match: re.Match[str]) -> bool:
    if match.group()[0] not in ".…":
        return True
    if match.group() == "." and _ABBREVIATION.search(text[max(0, match.end() - 12) : match.end()]):
        return False
    following = _WORD.search(text, match.end())
    return following is None or not following.group()[0].islower()


def _trim(text: str, start: int, end: int) -> Span:
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())


def _pack(
    text: str,
    units: list[tuple[int, int, int]],
    first: int,
    count_tokens: Callable[[str], int],
    max_tokens: int,
    max_sentences: int | None,
) -> tuple[int, int]:
    """The last unit that fits behind `first`, and the tokens of the whole span.

    Units are added by the sum of their tokens; the span itself is then counted, since a
    tokenizer may merge or split at the seams.
    """
    last, total = first, units[first][2]
    limit = len(units) if max_sentences is None else min(len(units), first + max_sentences)
    while last + 1 < limit and total + units[last + 1][2] <= max_tokens:
        last += 1
        total += units[last][2]
    while last > first:
        tokens = count_tokens(text[units[first][0] : units[last][1]])
        if tokens <= max_tokens:
            return last, tokens
        last -= 1
    return first, units[first][2]


def _split(
    text: str, start: int, end: int, count_tokens: Callable[[str], int], max_tokens: int
) -> list[Span]:
    """Pieces of a sentence over the budget: as many words as fit, or characters of one word."""

    def longest(begin: int, stops: Sequence[int]) -> int:
        return _most(len(stops), lambda n: count_tokens(text[begin : stops[n - 1]]) <= max_tokens)

    words = [match.span() for match in _WORD.finditer(text, start, end)]
    stops = [stop for _, stop in words]
    pieces = []
    index = 0
    while index < len(words):
        begin, stop = words[index]
        taken = longest(begin, stops[index : index + max_tokens])  # a word has a token, or more
        if taken:
            pieces.append((begin, stops[index + taken - 1]))
        while not taken and begin < stop:
            size = max(1, longest(begin, range(begin + 1, stop + 1)))
            pieces.append((begin, begin + size))
            begin += size
        index += max(1, taken)
    return pieces


def _most(limit: int, fits: Callable[[int], bool]) -> int:
    """The largest n up to `limit` found to fit, by doubling and bisection; 0 when 1 does not."""
    good, bad = 0, 1
    while bad <= limit and fits(bad):
        good, bad = bad, bad * 2
    bad = min(bad, limit + 1)
    while bad - good > 1:
        middle = (good + bad) // 2
        if fits(middle):
            good = middle
        else:
            bad = middle
    return good


def _without_empty(
    text: str, chunks: list[tuple[int, int, int]], count_tokens: Callable[[str], int]
) -> list[tuple[int, int, int]]:
    """Join a chunk without tokens (signs that the tokenizer drops) to a neighbour."""
    joined: list[tuple[int, int, int]] = []
    for start, end, tokens in chunks:
        if joined and (tokens == 0 or joined[-1][2] == 0):
            start = joined.pop()[0]
            tokens = count_tokens(text[start:end])
        joined.append((start, end, tokens))
    return joined
