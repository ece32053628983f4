"""HotpotQA's questions (arXiv 1809.09600): supporting facts are sentences of titled paragraphs.

    {"_id": ..., "question": ..., "answer": ..., "type": "bridge" or "comparison",
     "context": [[title, [sentence, ...]], ...], "supporting_facts": [[title, sentence], ...]}

Gold documents are the supporting paragraphs in the order in which the facts name them, but the
paragraph whose title is the answer comes last, as the hop that reaches it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stages.benchmarks.hotpotqa import paragraph, sentence_span
from stages.metrics.answers import normalise
from stages.synthesize._imported import (
    Evidence,
    ImportedQuestion,
    Unusable,
    chain,
    merged,
    scorable_answer,
    usable,
    wanted_text,
)

TASK_TYPES = {"bridge": "multi_hop", "comparison": "comparison"}


def read_question(question: Mapping[str, Any], source: str) -> ImportedQuestion:
    """Raises `Unusable` with the rule that the question breaks."""
    text, answer = wanted_text(question, "question"), scorable_answer(question)
    kind = question.get("type", "bridge")
    if not isinstance(kind, str) or kind not in TASK_TYPES:
        raise Unusable("malformed_question", f"'type' must be one of {', '.join(TASK_TYPES)}")
    facts = question.get("supporting_facts")
    if not (isinstance(facts, list) and facts):
        raise Unusable("malformed_question", "'supporting_facts' must be a list of facts")
    evidence = merged([_evidence(question["context"], fact, source) for fact in facts])
    evidence = tuple(
        sorted(evidence, key=lambda item: normalise(item.title) == normalise(answer))
    )  # the sort is stable
    return ImportedQuestion(
        source=source,
        source_id=None if question.get("_id") is None else wanted_text(question, "_id"),
        question=text,
        answer=answer,
        aliases=(),
        entities=chain((item.title for item in evidence), answer),
        evidence=evidence,
        hops=len(evidence),
        task_type=TASK_TYPES[kind],
    )


def _evidence(context: list[Any], fact: Any, source: str) -> Evidence:
    if not (isinstance(fact, list) and [type(part) for part in fact] == [str, int]):
        raise Unusable("malformed_question", "a supporting fact must be [title, sentence number]")
    title, number = fact
    places = [
        place
        for place, entry in enumerate(context)
        if isinstance(entry, list) and entry and entry[0] == title
    ]
    if not places:
        raise Unusable(
            "supporting_title_not_in_context", f"no paragraph of the question is called '{title}'"
        )
    entry = context[places[0]]
    gold = usable(paragraph(entry, f"{source}.context[{places[0]}]"))
    sentences = entry[1]
    if not 0 <= number < len(sentences):
        raise Unusable(
            "supporting_sentence_out_of_range",
            f"sentence {number} of '{title}', which has {len(sentences)}",
        )
    span = sentence_span(sentences, number)
    if span[0] == span[1]:
        raise Unusable("supporting_sentence_empty", f"sentence {number} of '{title}' is empty")
    return Evidence(gold.doc_id, gold.title, (span,))
