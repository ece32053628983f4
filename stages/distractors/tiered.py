"""Distractors by tier (LongTraceRL, arXiv 2605.31584): gold, then what the search agent opened but
did not cite, then what its searches returned and it never opened, up to the token budget.

The paper stops there. With `filler` the budget is filled up with random documents, for corpora too
small to give enough of both tiers; their role says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any, Literal

from pydantic import Field

from stages.distractors._agent import search_trace, tiers
from stages.distractors._assemble import AssemblyConfig, Pool, Ranked, filler, write_contexts
from stages.distractors._index import SearchIndex
from stages.runtime.context import StageContext


class Config(AssemblyConfig):
    kind: Literal["tiered"]
    top_k: int = Field(ge=1, description="Results of one search")
    opens: int = Field(ge=1, description="Results opened after one search")
    filler: int | None = Field(
        ge=0, description="Random documents to fill up with, at most; null fills the budget"
    )


def run(config: Config, context: StageContext) -> dict[str, Any]:
    index = SearchIndex.build(context.read("documents", columns=["doc_id", "title", "text"]))
    traces = context.writer("traces")
    steps = 0
    found = golds = 0

    def rank(question: Mapping[str, Any], pool: Pool) -> Ranked:
        nonlocal steps, found, golds
        trace = search_trace(question, index, config.top_k, config.opens)
        for step, action in enumerate(trace):
            steps += 1
            traces.add(
                {
                    "question_id": question["question_id"],
                    "step": step,
                    "action": action.action,
                    "query": action.query,
                    "doc_ids": list(action.doc_ids),
                }
            )
        found += len(trace[-1].doc_ids)
        golds += len(question["gold_doc_ids"])
        first, second = tiers(trace, question["gold_doc_ids"])
        return chain(
            ((doc_id, "tier1") for doc_id in first),
            ((doc_id, "tier2") for doc_id in second),
            filler(question["question_id"], pool, config.seed, config.filler),
        )

    metrics = write_contexts(config, context, rank)
    context.finish("traces", rows_in=steps)
    return {**metrics, "agent_gold_recall": round(found / max(golds, 1), 4)}
