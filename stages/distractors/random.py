"""Random distractors: documents drawn at random up to the token budget. The baseline of `tiered`:
the same budgets, order and views; no search, so `traces` is empty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from stages.distractors._assemble import AssemblyConfig, Pool, Ranked, filler, write_contexts
from stages.runtime.context import StageContext


class Config(AssemblyConfig):
    kind: Literal["random"]
    documents: int | None = Field(
        ge=1, description="Documents drawn for each question, at most; null fills the budget"
    )


def run(config: Config, context: StageContext) -> dict[str, Any]:
    def rank(question: Mapping[str, Any], pool: Pool) -> Ranked:
        return filler(question["question_id"], pool, config.seed, config.documents)

    metrics = write_contexts(config, context, rank)
    context.finish("traces", rows_in=0)
    return metrics
