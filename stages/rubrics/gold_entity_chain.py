"""Rubric of the gold entity chain (LongTraceRL, arXiv 2605.31584): one criterion per entity that
the walk passes, the answer included; a good response names them all."""

from __future__ import annotations

from typing import Any, Literal

from stages.runtime.context import StageContext
from stages.runtime.variant import StageConfig


class Config(StageConfig):
    kind: Literal["gold_entity_chain"]


def run(config: Config, context: StageContext) -> dict[str, Any]:
    writer = context.writer("rubrics")
    questions = criteria = 0
    for question in context.read("questions"):
        questions += 1
        rows = rubric(question)
        criteria += len(rows)
        for row in rows:
            writer.add(row)
    context.finish("rubrics", rows_in=criteria)
    return {"questions": questions, "criteria_per_question": round(criteria / questions, 4)}


def rubric(question: dict[str, Any]) -> list[dict[str, Any]]:
    """The criteria of one question, each entity once, with equal weights that sum to 1.

    The evidence of an entity is the gold chunk of its hop where documents, chunks and entities
    correspond one to one, else all gold chunks.
    """
    entities = list(dict.fromkeys(question["entities"]))
    chunks = question["gold_chunk_ids"]
    sizes = {len(chunks), len(question["gold_doc_ids"]), len(question["entities"]), len(entities)}
    aligned = len(sizes) == 1
    return [
        {
            "question_id": question["question_id"],
            "position": position,
            "kind": "entity",
            "criterion": f"The response names {entity}.",
            "target": entity,
            "weight": 1 / len(entities),
            "evidence_chunk_ids": [chunks[position]] if aligned else chunks,
        }
        for position, entity in enumerate(entities)
    ]
