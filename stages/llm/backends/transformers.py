"""transformers in this process: the same text for the same seed, whatever the batch.

Each sample owns a counter-based random stream. A token is drawn by adding Gumbel noise from that
stream to the log-probabilities and taking the maximum, which samples exactly from the softmax
(Gumbel-max). Batches are grouped by length to save padding; answers go back by id. There is no
guided decoding here: the layer checks JSON, and asks for a repair.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from schemas.errors import UserError
from stages.llm.answer import NO_NUMBER, Answer, scored
from stages.llm.backends.encoding import continuation_tokens, count_tokens, prompt_tokens
from stages.llm.model import Model
from stages.llm.request import Request, Sampling
from stages.llm.tokenizer import load_causal_lm, load_tokenizer
from stages.runtime.llm import TransformersSettings
from stages.runtime.params import Runtime
from stages.runtime.seeds import device


class TransformersBackend:
    """An open model. `batch` is the most prompts in one call of it."""

    def __init__(self, model: Any, tokenizer: Any, batch: int) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.batch = batch

    @property
    def window(self) -> int | None:
        found = getattr(self.model.config, "max_position_embeddings", None)
        return found if isinstance(found, int) else None

    def count_tokens(self, request: Request) -> int:
        return count_tokens(self.tokenizer, request)

    def generate(
        self, requests: Sequence[Request], sampling: Sampling
    ) -> Iterator[tuple[str, Answer]]:
        encoded = [prompt_tokens(self.tokenizer, request) for request in requests]
        for indices in self._batches([len(tokens) for tokens in encoded]):
            started = time.monotonic()
            with _plain_generation(self.model):
                outputs = _generate_batch(
                    self.model, self.tokenizer, [encoded[i] for i in indices],
                    [requests[i].seed for i in indices], sampling,
                )  # fmt: skip
            seconds = time.monotonic() - started
            for index, (tokens, finished, sound) in zip(indices, outputs, strict=True):
                text = self.tokenizer.decode(tokens, skip_special_tokens=False)
                common: dict[str, Any] = {
                    "n_prompt_tokens": len(encoded[index]),
                    "n_cached_tokens": 0,
                    "n_tokens": len(tokens),
                    "seconds": seconds,
                }
                if not sound:
                    yield requests[index].id, Answer("nan", detail=NO_NUMBER, **common)
                elif finished and not text:
                    detail = "the model ended at once"
                    yield requests[index].id, Answer("empty", detail=detail, **common)
                else:
                    yield requests[index].id, Answer("ok" if finished else "length", text, **common)

    def score(self, requests: Sequence[Request]) -> Iterator[tuple[str, Answer]]:
        encoded = [
            (prompt_tokens(self.tokenizer, r), continuation_tokens(self.tokenizer, r))
            for r in requests
        ]
        for indices in self._batches([len(prompt) + len(rest) for prompt, rest in encoded]):
            started = time.monotonic()
            found = _score_batch(self.model, self.tokenizer, [encoded[i] for i in indices])
            seconds = time.monotonic() - started
            for index, values in zip(indices, found, strict=True):
                yield (
                    requests[index].id,
                    scored(
                        values,
                        n_prompt_tokens=sum(map(len, encoded[index])),
                        n_cached_tokens=0,
                        seconds=seconds,
                    ),
                )

    def close(self) -> None:
        self.model = None

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Indices in batches of similar length."""
        order = sorted(range(len(lengths)), key=lambda i: (lengths[i], i))
        for start in range(0, len(order), self.batch):
            yield order[start : start + self.batch]


def open_transformers(
    model: Model, settings: TransformersSettings, runtime: Runtime
) -> TransformersBackend:
    """Load a folder, with its adapter merged into it."""
    if model.folder is None:
        raise UserError(
            f"transformers loads a folder, but the model is the name '{model.name}'",
            fix="give the model's folder, or set runtime.llm.backend to server",
        )
    loaded = load_causal_lm(model.folder, device(runtime), dtype=settings.dtype)
    if model.adapter is not None:
        loaded = _with_adapter(loaded, model.adapter)
    return TransformersBackend(loaded, load_tokenizer(model.folder), runtime.generation_batch)


def _with_adapter(model: Any, folder: str) -> Any:
    try:
        from peft import PeftModel
    except ImportError as error:
        raise UserError(
            f"the adapter {folder} needs the package peft", fix="pip install peft"
        ) from error
    return PeftModel.from_pretrained(model, folder, use_safetensors=True).merge_and_unload().eval()


def _score_batch(
    model: Any, tokenizer: Any, pairs: Sequence[tuple[list[int], list[int]]]
) -> list[list[float]]:
    """Log-probability of each token of each continuation after its prompt.

    Padded on the right, where padding cannot reach what a causal model computes before it. Logits
    are asked for only where some continuation needs them; their softmax is taken in float32.
    """
    import torch

    if any(not prompt for prompt, _ in pairs):
        raise ValueError("nothing stands before the continuation")
    rows = [[*prompt, *rest] for prompt, rest in pairs]
    longest = max(map(len, rows))
    pad = tokenizer.pad_token_id
    ids = torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    first = min(len(prompt) - 1 for prompt, _ in pairs)
    places = torch.arange(first, longest, device=model.device)
    with torch.inference_mode():
        logits = model(
            input_ids=ids.to(model.device), attention_mask=mask.to(model.device),
            logits_to_keep=places, use_cache=False,
        ).logits  # fmt: skip
        found = []
        for row, (prompt, rest) in zip(logits, pairs, strict=True):
            start = len(prompt) - 1 - first
            wanted = torch.tensor(rest, device=row.device, dtype=torch.long)
            logprobs = torch.log_softmax(row[start : start + len(rest)].float(), dim=-1)
            found.append(logprobs.gather(1, wanted[:, None])[:, 0].tolist())
    return found


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
) -> list[tuple[list[int], bool, bool]]:
    """(generated tokens without the end token, ended by itself, from numbers) for each prompt."""
    import torch
    from transformers import LogitsProcessorList

    padded = tokenizer.pad({"input_ids": prompts}, return_tensors="pt", padding_side="left")
    inputs = {
        key: value.to(model.device) for key, value in padded.items() if key != "token_type_ids"
    }
    end = tokenizer.eos_token_id
    watch, broken = _watch()
    with torch.inference_mode():
        output = model.generate(
            input_ids=inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            do_sample=False,
            max_new_tokens=sampling.max_new_tokens,
            logits_processor=LogitsProcessorList([watch, *_processors(sampling, seeds)]),
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=end,
        )
    results = []
    unsound = torch.stack(broken, dim=1).tolist()
    rows = output[:, inputs["input_ids"].shape[1] :].tolist()
    for row, steps in zip(rows, unsound, strict=True):
        finished = end in row
        length = row.index(end) if finished else len(row)
        results.append((row[:length], finished, not any(steps[: length + 1])))
    return results


def _watch() -> tuple[Any, list[Any]]:
    """A logits processor that changes nothing, and its notes: for each step which rows hold NaN.

    The largest of numbers with NaN among them is some token all the same.
    """
    import torch
    from transformers import LogitsProcessor

    broken: list[torch.Tensor] = []

    class Watch(LogitsProcessor):
        def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            broken.append(scores.isnan().any(dim=1))
            return scores

    return Watch(), broken


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
