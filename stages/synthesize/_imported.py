"""A benchmark's question as read, before its evidence is looked up in the corpus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stages.benchmarks.passages import Passage
from stages.metrics.answers import normalise
from stages.runtime.rejected import Rejected, is_unicode

Span = tuple[int, int]


class Unusable(Exception):
    """A question that cannot be a row: it is quarantined under `rule`."""

    def __init__(self, rule: str, reason: str) -> None:
        self.rule = rule
        self.reason = reason
        super().__init__(reason)


class LeftOut(Exception):
    """A question that is left out on purpose; the message is the reason that is counted."""


@dataclass(frozen=True)
class Evidence:
    """A gold passage, and the spans of it that state a step; without spans, all of it does."""

    doc_id: str
    title: str
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class ImportedQuestion:
    source: str
    source_id: str | None
    question: str
    answer: str
    aliases: tuple[str, ...]
    entities: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    hops: int
    task_type: str


def wanted_text(question: Mapping[str, Any], field: str) -> str:
    """A field that must be a string with something in it."""
    value = question.get(field)
    if not isinstance(value, str) or not value.strip():
        raise Unusable("malformed_question", f"'{field}' must be a string that is not empty")
    if not is_unicode(value):
        raise Unusable("invalid_unicode", f"'{field}' holds half of a surrogate pair")
    return value


def scorable_answer(question: Mapping[str, Any]) -> str:
    """The answer; one without a letter, digit or symbol could never be matched."""
    answer = wanted_text(question, "answer")
    if not normalise(answer):
        raise Unusable("answer_not_scorable", "the answer has no letter, digit or symbol")
    return answer


def usable(item: Passage | Rejected) -> Passage:
    """A gold passage; a malformed one makes its question unusable."""
    if isinstance(item, Rejected):
        raise Unusable(item.rule, f"{item.source}: {item.reason}")
    return item


def chain(before: Iterable[str], answer: str) -> tuple[str, ...]:
    """The entities on the way, each once, then the answer. What has no word is left out."""
    names = [name for name in before if normalise(name) not in ("", normalise(answer))]
    return (*dict.fromkeys(names), answer)


def merged(evidence: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """Each passage once, at its first place, with all its spans."""
    by_document: dict[str, Evidence] = {}
    for item in evidence:
        known = by_document.get(item.doc_id)
        if known is None:
            by_document[item.doc_id] = item
        else:
            # A passage without spans is evidence as a whole, whatever else points into it.
            spans = known.spans + item.spans if known.spans and item.spans else ()
            by_document[item.doc_id] = Evidence(item.doc_id, item.title, spans)
    return tuple(by_document.values())
