"""Making samples: an answer to a rendered question, with the references it is scored against."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stages.llm.library import Item
from stages.rewards.sample import Sample


def entities_by_question(rubrics: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """The targets of the entity criteria of each question, in the order of the rubric."""
    targets: dict[str, list[str]] = defaultdict(list)
    for row in rubrics:
        if row["kind"] == "entity":
            targets[row["question_id"]].append(row["target"])
    return {question_id: tuple(found) for question_id, found in targets.items()}


def make_sample(item: Item, text: str, finish_reason: str, entities: Sequence[str]) -> Sample:
    """The sample of one answer. Gold citations are the markers of the gold chunks in its prompt."""
    question = item.question
    return Sample(
        question_id=question["question_id"],
        text=text,
        finish_reason=finish_reason,
        metric=question["metric"],
        golds=(question["answer"], *question["aliases"]),
        entities=tuple(entities),
        gold_citations=tuple(
            item.prompt.markers[chunk_id]
            for chunk_id in question["gold_chunk_ids"]
            if chunk_id in item.prompt.markers
        ),
        thinking=item.prompt.thinking,
    )


def row_status(status: str) -> str:
    """A response's status as datasets hold it: ok, ill_formed:REASON or failed:REASON."""
    return status if status == "ok" or status.startswith("failed") else f"ill_formed:{status}"
