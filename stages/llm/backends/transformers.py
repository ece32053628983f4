"""transformers in this process: the same text for the same seed, whatever the batch.

Each sample owns a counter-based random stream. A token is drawn by adding Gumbel noise from that
stream to the log-probabilities and taking the maximum, which samples exactly from the softmax
(Gumbel-max). Batches are grouped by length to save padding; answers go back by id. There is no
guided decoding here: the layer checks JSON, and asks for a repair.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from schemas.errors import UserError
from stages.llm.answer import NO_NUMBER, Answer, scored
from stages.llm.backends.choices import by_prompt, chosen, is_choice
from stages.llm.backends.encoding import Encoder
from stages.llm.model import Model
from stages.llm.request import Request, Sampling
from stages.llm.tokenizer import end_tokens, load_causal_lm, load_tokenizer
from stages.runtime.llm import TransformersSettings
from stages.runtime.params import Runtime
from stages.runtime.seeds import device


class TransformersBackend:
    """An open model. `batch` is the most prompts in one call of it."""

    def __init__(
        self, model: Any, tokenizer: Any, batch: int, thinking: bool | None = None
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.encoder = Encoder(tokenizer, thinking)
        self.batch = batch

    @property
    def window(self) -> int | None:
        found = getattr(self.model.config, "max_position_embeddings", None)
        return found if isinstance(found, int) else None

    def encode(self, requests: Sequence[Request]) -> list[array[int]]:
        return self.encoder.encode(requests)

    def generate(
        self, requests: Sequence[Request], sampling: Sampling
    ) -> Iterator[tuple[str, Answer]]:
        encoded = [self.encoder.prompt(request) for request in requests]
        ends = end_tokens(self.tokenizer, self.model.generation_config.eos_token_id)
        for indices in self._batches([len(tokens) for tokens in encoded]):
            started = time.monotonic()
            with _plain_generation(self.model):
                outputs = _generate_batch(
                    self.model, self.tokenizer, [encoded[i] for i in indices],
                    [requests[i].seed for i in indices], sampling, ends,
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
        parts = by_prompt(requests, self.encoder)
        encoded = [self._wanted(part) for part in parts]
        for indices in self._batches([len(tokens) for tokens, _ in encoded]):
            started = time.monotonic()
            found = _score_batch(self.model, self.tokenizer, [encoded[i] for i in indices])
            seconds = time.monotonic() - started
            for index, values in zip(indices, found, strict=True):
                part = parts[index]
                counts = {"n_prompt_tokens": len(encoded[index][0]), "n_cached_tokens": 0}
                if is_choice(part[0], self.encoder):
                    yield from chosen(part, values, seconds, **counts)
                else:
                    yield part[0].id, scored(values, seconds=seconds, **counts)

    def _wanted(self, part: Sequence[Request]) -> tuple[list[int], list[tuple[int, int]]]:
        """What the model reads, and of which tokens after which place the score is wanted."""
        prompt = self.encoder.prompt(part[0])
        if not prompt:
            raise ValueError("nothing stands before the continuation")
        last = len(prompt) - 1
        if is_choice(part[0], self.encoder):
            return prompt, [(last, self.encoder.continuation(request)[0]) for request in part]
        rest = self.encoder.continuation(part[0])
        return [*prompt, *rest], [(last + number, token) for number, token in enumerate(rest)]

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
    return TransformersBackend(
        loaded, load_tokenizer(model.folder), runtime.generation_batch, model.thinking
    )


def _with_adapter(model: Any, folder: str) -> Any:
    try:
        from peft import PeftModel
    except ImportError as error:
        raise UserError(
            f"the adapter {folder} needs the package peft", fix="pip install peft"
        ) from error
    return PeftModel.from_pretrained(model, folder, use_safetensors=True).merge_and_unload().eval()


def _score_batch(
    model: Any, tokenizer: Any, rows: Sequence[tuple[list[int], list[tuple[int, int]]]]
) -> list[list[float]]:
    """Of each row (what is read, wanted places and tokens) the log-probabilities that are wanted.

    Padded on the right, where padding cannot reach what a causal model computes before it. Logits
    are asked for only where some continuation needs them; their softmax is taken in float32.
    """
    import torch

    longest = max(len(tokens) for tokens, _ in rows)
    pad = tokenizer.pad_token_id
    ids = torch.tensor([[*tokens, *[pad] * (longest - len(tokens))] for tokens, _ in rows])
    mask = torch.tensor([[1] * len(tokens) + [0] * (longest - len(tokens)) for tokens, _ in rows])
    first = min((place for _, wanted in rows for place, _ in wanted), default=longest - 1)
    places = torch.arange(first, longest, device=model.device)
    with torch.inference_mode():
        logits = model(
            input_ids=ids.to(model.device), attention_mask=mask.to(model.device),
            logits_to_keep=places, use_cache=False,
        ).logits  # fmt: skip
        found = []
        for row, (_, wanted) in zip(logits, rows, strict=True):
            at = torch.tensor([place - first for place, _ in wanted], dtype=torch.long)
            words = torch.tensor([token for _, token in wanted], dtype=torch.long)
            logprobs = torch.log_softmax(row[at.to(row.device)].float(), dim=-1)
            found.append(logprobs.gather(1, words.to(row.device)[:, None])[:, 0].tolist())
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
    model: Any,
    tokenizer: Any,
    prompts: list[list[int]],
    seeds: list[int],
    sampling: Sampling,
    ends: frozenset[int],
) -> list[tuple[list[int], bool, bool]]:
    """(generated tokens without the end token, ended by itself, from numbers) for each prompt."""
    import torch
    from transformers import LogitsProcessorList

    padded = tokenizer.pad({"input_ids": prompts}, return_tensors="pt", padding_side="left")
    inputs = {
        key: value.to(model.device) for key, value in padded.items() if key != "token_type_ids"
    }
    watch, broken = _watch()
    with torch.inference_mode():
        output = model.generate(
            input_ids=inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            do_sample=False,
            max_new_tokens=sampling.max_new_tokens,
            logits_processor=LogitsProcessorList([watch, *_processors(sampling, seeds)]),
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=sorted(ends),
        )
    results = []
    unsound = torch.stack(broken, dim=1).tolist()
    rows = output[:, inputs["input_ids"].shape[1] :].tolist()
    for row, steps in zip(rows, unsound, strict=True):
        length = next((at for at, token in enumerate(row) if token in ends), len(row))
        results.append((row[:length], length < len(row), not any(steps[: length + 1])))
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
