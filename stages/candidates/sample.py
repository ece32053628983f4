"""Several seeded answers a question from one model, with temperature sampling.

A request that failed becomes no candidate: it is dropped with its status as the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from schemas.ids import content_id, seeded
from stages.llm.answer import SAMPLED, sampled
from stages.llm.layer import LanguageModel
from stages.llm.library import Item, items
from stages.llm.model import Model
from stages.llm.prompts import load_template
from stages.llm.request import Request, Sampling
from stages.llm.tokenizer import load_tokenizer
from stages.runtime.context import StageContext
from stages.runtime.seeds import deterministic
from stages.runtime.variant import Settings, StageConfig


class SplitLimits(Settings):
    """Most questions taken of each split."""

    train: int = Field(ge=0)
    validation: int = Field(ge=0)
    test: int = Field(ge=0)


class Config(StageConfig):
    kind: Literal["sample"]
    samples: int = Field(ge=2, description="Answers a question")
    sampling: Sampling
    questions: SplitLimits
    view: Literal["long", "short"]
    prompt: str
    seed: int = Field(ge=0)


def run(config: Config, context: StageContext) -> dict[str, Any]:
    deterministic(config.seed, context.params.runtime)
    folder = context.model("warmup")
    rows: dict[str, dict[str, Any]] = {}

    def requests() -> Iterator[Request]:
        for item in items(
            context,
            load_template(config.prompt),
            load_tokenizer(folder),
            view=config.view,
            splits=[split for split, n in config.questions.model_dump().items() if n],
            limit=config.questions.model_dump(),
        ):
            for sample in range(config.samples):
                seed = seeded(config.seed, item.question["question_id"], sample)
                row = candidate_row(item, sample, config.view, seed)
                rows[row["candidate_id"]] = row
                yield Request(row["candidate_id"], item.prompt.text, seed, group=row["question_id"])

    with LanguageModel.of(context, Model(folder=str(folder))) as model:
        answers = model.ask(requests(), config.sampling, complete=SAMPLED)
    writer = context.writer("candidates")
    finished = tokens = written = 0
    for candidate_id, row in rows.items():
        answer = answers[candidate_id]
        if answer.status not in SAMPLED:
            writer.drop(answer.status)
            continue
        text, finish_reason = sampled(answer)
        written += 1
        finished += finish_reason == "stop"
        tokens += answer.n_tokens
        writer.add(
            row
            | {
                "text": text,
                "finish_reason": finish_reason,
                "n_prompt_tokens": answer.n_prompt_tokens,
                "n_tokens": answer.n_tokens,
            }
        )
    context.finish("candidates", rows_in=len(rows))
    return {
        "questions": len({row["question_id"] for row in rows.values()}),
        "finished": round(finished / max(written, 1), 4),
        "tokens_mean": round(tokens / max(written, 1), 2),
    }


def candidate_row(item: Item, sample: int, view: str, seed: int) -> dict[str, Any]:
    """The identity columns of one candidate of the warm-up model."""
    question_id = item.question["question_id"]
    return {
        "candidate_id": content_id(question_id, view, "warmup", sample),
        "question_id": question_id,
        "split": item.question["split"],
        "view": view,
        "model": "warmup",
        "sample": sample,
        "seed": seed,
        "prompt_hash": item.prompt.hash,
    }
