"""What is put before a language-model judge: one question in one view, with all its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from schemas.ids import content_id
from stages.llm.library import Item
from stages.llm.prompts import fill
from stages.llm.request import Message
from stages.rewards.response import parse_response

Reads = Literal["content", "text"]
"""Of an answer: what follows its thinking (ill-formed ones score 0 by rule), or all of it."""


@dataclass(frozen=True)
class Criterion:
    """One line of a rubric."""

    name: str
    text: str
    weight: float


@dataclass(frozen=True)
class Answered:
    """A candidate as a judge reads it. With a status other than `ok` it is not shown to one."""

    candidate_id: str
    text: str
    status: str = "ok"


@dataclass(frozen=True)
class Case:
    """One question with its documents rendered, and its candidates by id.

    `group` is the id of the documents in their order: cases that have it in common share the text
    of their prompts up to the question.
    """

    key: str
    head: str
    group: str
    reference: str
    rubric: tuple[Criterion, ...]
    candidates: tuple[Answered, ...]

    def messages(self, ask: str, **values: str) -> tuple[Message, ...]:
        """The prompt: the shared text, then the question about one or two of the candidates."""
        return (Message("user", self.head + fill(ask, reference=self.reference, **values)),)


def answered(candidate: Mapping[str, Any], reads: Reads, thinking: bool = True) -> Answered:
    """The part of a candidate that is judged. What the engine cut off is ill-formed in `content`.

    Only an answer without any text is ill-formed when all of it is read.
    """
    name, text = candidate["candidate_id"], candidate["text"]
    if reads == "text":
        return Answered(name, text.strip(), "ok" if text.strip() else "ill_formed:empty")
    response = parse_response(text, candidate["finish_reason"], thinking)
    return Answered(
        name, response.content, "ok" if response.ok else f"ill_formed:{response.status}"
    )


def make_case(
    item: Item,
    candidates: Sequence[Mapping[str, Any]],
    rubric: Sequence[Criterion],
    reads: Reads,
) -> Case:
    """The case of one rendered question."""
    question, view = item.question, item.context["view"]
    documents = [entry["doc_id"] for entry in item.context["documents"]]
    return Case(
        key=f"{view}/{question['question_id']}",
        head=item.prompt.text,
        group=content_id("documents", *documents),
        reference=" / ".join([question["answer"], *question["aliases"]]),
        rubric=tuple(rubric),
        candidates=tuple(
            sorted(
                (answered(c, reads, item.prompt.thinking) for c in candidates),
                key=lambda one: one.candidate_id,
            )
        ),
    )
