"""Reading a response in Longline's layout.

    <think> ... </think> evidence sentences with [n] markers ... Answer: VALUE

Guarantees: `parse_response` never raises, takes time linear in the text, and reads nothing
before the end-of-thinking tag (LongTraceRL, arXiv 2605.31584: exactly one end tag and a finished
generation, else there is no content to score). A prompt that asks for no thinking (`thinking:
false` in its template) has none to end: then the tag may be missing. The opening tag is never
asked for, since many chat templates write it in the prompt. Spaces that a word-level tokenizer
puts between marks (`[ 3 ]`, `Answer : Paris`) are accepted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

THINK_START = "<think>"
THINK_END = "</think>"
FINISHED = "stop"  # the model ended the text by itself

Status = Literal["ok", "truncated", "no_think_end", "many_think_ends", "no_answer", "empty"]

_ANSWER = re.compile(r"(?<!\w)answer[ \t]*[:\uff1a]", re.IGNORECASE)
_MARKER = re.compile(r"\[\s*([0-9]{1,9}(?:\s*[,;]\s*[0-9]{1,9})*)\s*\]")
_NUMBER = re.compile(r"[0-9]+")
_MARKUP = " \t*_`\"'\u201c\u201d\u2018\u2019"
_TRAILING = _MARKUP + ".,;:!?\u2026\u3002\uff0c\u3001\uff1b\uff1a\uff01\uff1f\u061f\u060c"


@dataclass(frozen=True)
class Response:
    """A parsed response.

    `content` is empty unless thinking ended exactly once in a finished text; `answer` is empty
    unless `status` is `ok`; `citations` keeps order and duplicates.
    """

    status: Status
    thinking: str
    content: str
    answer: str
    citations: tuple[int, ...]

    @property
    def ok(self) -> bool:
        """Whether the response is well formed."""
        return self.status == "ok"


def parse_response(text: str, finish_reason: str, thinking: bool = True) -> Response:
    """Read `text`, a decoded completion without its end-of-text token.

    Without `thinking` the prompt asked for no thinking block, as suits models that were not trained
    to write one: all of the text is content, or what follows an end tag if there is one.

    `finish_reason` is the engine's: `stop` is a finished text, any other (`length`, `abort`) a
    truncated one. `empty` means that the text, or what follows the thinking, is blank;
    `no_answer` that there is no `Answer:` or nothing on its line.
    """
    ends = text.count(THINK_END)
    before, _, content = text.partition(THINK_END)
    if not ends and not thinking:
        before, content = "", text
    thoughts = before.strip().removeprefix(THINK_START).strip()
    if finish_reason != FINISHED:
        return _ill_formed("truncated", thoughts)
    if not text.strip():
        return _ill_formed("empty", thoughts)
    if ends > 1 or (thinking and not ends):
        return _ill_formed("many_think_ends" if ends else "no_think_end", thoughts)
    content = content.strip()
    if not content:
        return _ill_formed("empty", thoughts)
    answer = _answer(content)
    return Response(
        status="ok" if answer else "no_answer",
        thinking=thoughts,
        content=content,
        answer=answer,
        citations=_citations(content),
    )


def _ill_formed(status: Status, thinking: str) -> Response:
    return Response(status, thinking, content="", answer="", citations=())


def _answer(content: str) -> str:
    start = None
    for match in _ANSWER.finditer(content):
        start = match.end()
    if start is None:
        return ""
    line = (content[start:].splitlines() or [""])[0]
    return _without_tail(line.lstrip(_MARKUP))


def _without_tail(line: str) -> str:
    """Drop citation markers and punctuation from the end."""
    masked = _MARKER.sub(lambda match: " " * len(match.group()), line)
    return line[: len(masked.rstrip(_TRAILING))].strip()


def _citations(content: str) -> tuple[int, ...]:
    return tuple(
        int(number)
        for match in _MARKER.finditer(content)
        for number in _NUMBER.findall(match.group(1))
    )
