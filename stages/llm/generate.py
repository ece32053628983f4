"""Sampling with transformers: the same text for the same seed, whatever the batch.

Each sample owns a counter-based random stream. A token is drawn by adding Gumbel noise from that
stream to the log-probabilities and taking the maximum, which samples exactly from the softmax
(Gumbel-max). Batches are grouped by length to save padding; results go back by position.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from stages.runtime import usage
from stages.runtime.progress import track
from stages.runtime.variant import Settings


class Sampling(Settings):
    """How an answer is drawn; part of a stage's identity."""

    temperature: float = Field(ge=0, description="0 is greedy")
    top_p: float = Field(gt=0, le=1)
    max_new_tokens: int = Field(ge=1)


@dataclass(frozen=True)
class Request:
    """One answer to draw: a rendered prompt and the seed of its random stream."""

    prompt: str
    seed: int


@dataclass(frozen=True)
class Generation:
    text: str
    finish_reason: str
    n_prompt_tokens: int
    n_tokens: int


def generate(
    model: Any, tokenizer: Any, requests: Sequence[Request], sampling: Sampling, batch: int
) -> list[Generation]:
    """One generation per request, in the order of the requests.

    `finish_reason` is `stop` if the model ended by itself, else `length`. Batching can change
    log-probabilities in the last bits, so a draw that is tied to that precision may differ.
    """
    encoded = [tokenizer.encode(request.prompt, add_special_tokens=False) for request in requests]
    order = sorted(range(len(requests)), key=lambda i: (len(encoded[i]), i))
    batches = [order[start : start + batch] for start in range(0, len(order), batch)]
    results: list[Generation | None] = [None] * len(requests)
    for indices in track(batches, "generation batches"):
        with _plain_generation(model):
            outputs = _generate_batch(
                model, tokenizer, [encoded[i] for i in indices],
                [requests[i].seed for i in indices], sampling,
            )  # fmt: skip
        for index, (tokens, finished) in zip(indices, outputs, strict=True):
            results[index] = Generation(
                text=tokenizer.decode(tokens, skip_special_tokens=False),
                finish_reason="stop" if finished else "length",
                n_prompt_tokens=len(encoded[index]),
                n_tokens=len(tokens),
            )
    done = [result for result in results if result is not None]
    usage.add(
        prompt=sum(result.n_prompt_tokens for result in done),
        completion=sum(result.n_tokens for result in done),
    )
    return done


@contextmanager
def _plain_generation(model: Any) -> Iterator[None]:
    """Without the defaults that a model brings, such as Qwen's repetition penalty.

    They would change the answers, and no stage's parameters would say so.
    """
    from transformers import GenerationConfig

    own = model.generation_config
    model.generation_config = GenerationConfig()
    try:
        yield
    finally:
        model.generation_config = own


def _generate_batch(
    model: Any, tokenizer: Any, prompts: list[list[int]], seeds: list[int], sampling: Sampling
) -> list[tuple[list[int], bool]]:
    """(generated tokens without the end token, ended by itself) for each prompt."""
    import torch
    from transformers import LogitsProcessorList

    padded = tokenizer.pad({"input_ids": prompts}, return_tensors="pt", padding_side="left")
    inputs = {
        key: value.to(model.device) for key, value in padded.items() if key != "token_type_ids"
    }
    end = tokenizer.eos_token_id
    with torch.inference_mode():
        output = model.generate(
            input_ids=inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            do_sample=False,
            max_new_tokens=sampling.max_new_tokens,
            logits_processor=LogitsProcessorList(_processors(sampling, seeds)),
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=end,
        )
    results = []
    for row in output[:, inputs["input_ids"].shape[1] :].tolist():
        finished = end in row
        results.append((row[: row.index(end)] if finished else row, finished))
    return results


def _processors(sampling: Sampling, seeds: list[int]) -> list[Any]:
    from transformers import TemperatureLogitsWarper, TopPLogitsWarper

    if sampling.temperature == 0:
        return []
    chain: list[Any] = [TemperatureLogitsWarper(sampling.temperature)]
    if sampling.top_p < 1:
        chain.append(TopPLogitsWarper(sampling.top_p))
    return [*chain, gumbel_processor(seeds)]


def gumbel_processor(seeds: Sequence[int]) -> Any:
    """A logits processor that turns greedy choice into sampling, one stream per row."""
    import numpy as np
    import torch
    from transformers import LogitsProcessor

    streams = [np.random.Generator(np.random.Philox(key=seed)) for seed in seeds]

    class Gumbel(LogitsProcessor):
        def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            noise = np.stack([stream.gumbel(size=scores.shape[1]) for stream in streams])
            return scores + torch.from_numpy(noise).to(scores.device, scores.dtype)

    return Gumbel()
