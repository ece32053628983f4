"""Several seeded answers a question from one model, with temperature sampling."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from schemas.ids import content_id, seeded
from stages.llm.generate import Request, Sampling, generate
from stages.llm.library import Item, items
from stages.llm.prompts import load_template
from stages.llm.tokenizer import load_causal_lm, load_tokenizer
from stages.runtime.context import StageContext
from stages.runtime.seeds import deterministic, device
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
    tokenizer = load_tokenizer(folder)
    model = load_causal_lm(folder, device(context.params.runtime))
    chosen = list(
        items(
            context,
            load_template(config.prompt),
            tokenizer,
            view=config.view,
            splits=[split for split, n in config.questions.model_dump().items() if n],
            limit=config.questions.model_dump(),
        )
    )
    jobs = [(item, sample) for item in chosen for sample in range(config.samples)]
    requests = [
        Request(item.prompt.text, seeded(config.seed, item.question["question_id"], sample))
        for item, sample in jobs
    ]
    generations = generate(
        model, tokenizer, requests, config.sampling, context.params.runtime.generation_batch
    )
    writer = context.writer("candidates")
    finished = tokens = 0
    for (item, sample), request, generation in zip(jobs, requests, generations, strict=True):
        finished += generation.finish_reason == "stop"
        tokens += generation.n_tokens
        writer.add(
            candidate_row(item, sample, config.view, request.seed)
            | {
                "text": generation.text,
                "finish_reason": generation.finish_reason,
                "n_prompt_tokens": generation.n_prompt_tokens,
                "n_tokens": generation.n_tokens,
            }
        )
    context.finish("candidates", rows_in=len(jobs))
    return {
        "questions": len(chosen),
        "finished": round(finished / max(len(jobs), 1), 4),
        "tokens_mean": round(tokens / max(len(jobs), 1), 2),
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
