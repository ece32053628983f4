"""Rewording template questions with a language model, and what the new words must keep.

LongTraceRL (arXiv 2605.31584) has a model write the question of a walk, naming no entity on the
way. Here the model gets the template question alone, so that it cannot copy what it does not see;
still it may know the answer, so its words are checked: they are a question that names the start and
no gold entity.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from schemas.ids import seeded
from stages.llm.answer import Answer
from stages.llm.instruction import Instruction, load_instruction
from stages.llm.model import Model
from stages.llm.request import Request, Sampling
from stages.metrics.mention import name_form, occurs, without
from stages.metrics.text import fold
from stages.runtime.rejected import is_unicode
from stages.runtime.variant import Settings

PROMPTS = Path(__file__).parent / "prompts"
NEEDS = frozenset({"question", "start"})
_QUESTION_MARKS = ("?", "\uff1f", "\u061f", "\u037e", "\u055e")  # of any script


class Rewording(Settings):
    model: Model
    prompt: str = Field(
        min_length=1, description="A template of stages/synthesize/prompts, or a path"
    )
    sampling: Sampling
    question_chars: int = Field(ge=1, description="Longest question")
    on_failure: Literal["drop", "keep"] = Field(
        description="What becomes of a question without usable new words: left out, or as it was"
    )
    seed: int = Field(ge=0)


@dataclass(frozen=True)
class Worded:
    """A template question, with what it starts from and what it must not name."""

    id: str
    question: str
    start: str
    entities: Sequence[str]
    """The gold entities in the order of the walk, the answer last."""


def instruction(config: Rewording) -> Instruction:
    """The prompt template. `UserError` where it is wrong."""
    return load_instruction(config.prompt, PROMPTS, NEEDS)


def requests(config: Rewording, questions: Sequence[Worded]) -> list[Request]:
    """One request a question, each with a seed of its own."""
    asked = instruction(config)
    schema = json.dumps(
        {
            "type": "object",
            "properties": {
                "question": {"type": "string", "minLength": 1, "maxLength": config.question_chars}
            },
            "required": ["question"],
            "additionalProperties": False,
        }
    )
    return [
        Request(
            id=one.id,
            prompt=asked.messages(question=one.question, start=one.start),
            seed=seeded(config.seed, "wording", one.id),
            schema=schema,
        )
        for one in questions
    ]


def reworded(
    questions: Sequence[Worded], answers: Mapping[str, Answer]
) -> dict[str, tuple[str | None, str]]:
    """For each question its new words, or None, and the reason for that.

    The words of two questions may not be the same: their answers differ. The first keeps them.
    """
    found: dict[str, tuple[str | None, str]] = {}
    taken: set[str] = set()
    for one in questions:
        answer = answers[one.id]
        if answer.status != "ok":
            found[one.id] = None, answer.status
            continue
        text = " ".join(_text(answer).split())
        fault = defect(text, one)
        if fault is None and fold(text) in taken:
            fault = "duplicate_wording"
        if fault is None:
            taken.add(fold(text))
        found[one.id] = (text, "ok") if fault is None else (None, fault)
    return found


def defect(text: str, question: Worded) -> str | None:
    """Why these words do not ask the question, as far as names tell.

    A name inside that of the start, such as Mexico in Mexico City, is no leak.
    """
    if not is_unicode(text) or not fold(text):
        return "no_text"
    if not text.endswith(_QUESTION_MARKS):
        return "no_question"
    words = fold(text)
    start = name_form(question.start)
    if not occurs(start, words):
        return "start_missing"
    *way, answer = question.entities
    if _leaks(answer, start, words):
        return "leaks_answer"
    if any(_leaks(entity, start, words) for entity in way):
        return "leaks_entity"
    return None


def _leaks(entity: str, start: str, words: str) -> bool:
    """Whether the words name an entity, beyond what the name of the start holds of it."""
    form = name_form(entity)
    return occurs(form, words if occurs(start, form) else without(start, words))


def _text(answer: Answer) -> str:
    value: Any = json.loads(answer.text or "")
    return str(value["question"])
