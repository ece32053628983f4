"""MuSiQue's questions (arXiv 2108.00573): a decomposition into steps, each with its paragraph.

    {"question": ..., "answer": ..., "answer_aliases": [...], "answerable": true,
     "paragraphs": [{"idx": 0, "title": ..., "paragraph_text": ...}, ...],
     "question_decomposition": [{"question": ..., "answer": ..., "paragraph_support_idx": 0}, ...]}

The gold chunks of a step are those that hold the first mention of its answer in its paragraph:
as whole words whatever the case, else as letters. Where the paragraph does not mention it (the
annotators then read it between the lines), the whole paragraph is the evidence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from stages.benchmarks.musique import paragraph
from stages.synthesize._imported import (
    Evidence,
    ImportedQuestion,
    LeftOut,
    Span,
    Unusable,
    chain,
    merged,
    scorable_answer,
    usable,
    wanted_text,
)


def read_question(question: Mapping[str, Any], source: str) -> ImportedQuestion:
    """Raises `Unusable` with the rule, and `LeftOut` for a question without an answer."""
    if question.get("answerable") is False:
        raise LeftOut("unanswerable")
    text, answer = wanted_text(question, "question"), scorable_answer(question)
    steps = question.get("question_decomposition")
    if not (isinstance(steps, list) and steps and all(isinstance(step, dict) for step in steps)):
        raise Unusable("malformed_question", "'question_decomposition' must be a list of steps")
    aliases = question.get("answer_aliases", [])
    if not (isinstance(aliases, list) and all(isinstance(alias, str) for alias in aliases)):
        raise Unusable("malformed_question", "'answer_aliases' must be a list of strings")
    return ImportedQuestion(
        source=source,
        source_id=None if question.get("id") is None else wanted_text(question, "id"),
        question=text,
        answer=answer,
        aliases=chain(aliases, answer)[:-1],
        entities=chain((wanted_text(step, "answer") for step in steps[:-1]), answer),
        evidence=merged([_evidence(question, step, source) for step in steps]),
        hops=len(steps),
        task_type="multi_hop" if len(steps) > 1 else "single_hop",
    )


def first_mention(text: str, name: str) -> Span | None:
    """Where `name` first stands in `text`, whatever the case; as whole words if it ever does."""
    name = re.escape(name.strip())
    for pattern in (rf"(?<!\w){name}(?!\w)", name):
        match = re.search(pattern, text, re.IGNORECASE)
        if match and match.group():
            return match.span()
    return None


def _evidence(question: Mapping[str, Any], step: Mapping[str, Any], source: str) -> Evidence:
    paragraphs = question["paragraphs"]
    wanted = step.get("paragraph_support_idx")
    places = [
        place
        for place, item in enumerate(paragraphs)
        if (item.get("idx", place) if isinstance(item, dict) else place) == wanted
    ]
    if len(places) != 1 or isinstance(wanted, bool):
        raise Unusable(
            "supporting_paragraph_out_of_range",
            f"paragraph_support_idx is {wanted!r}, and {len(places)} of {len(paragraphs)} "
            "paragraphs are called so",
        )
    gold = usable(paragraph(paragraphs[places[0]], f"{source}.paragraphs[{places[0]}]"))
    span = first_mention(gold.text, wanted_text(step, "answer"))
    return Evidence(gold.doc_id, gold.title, () if span is None else (span,))
