"""Sequence classifiers as reward models: making one from a language model, loading, scoring.

transformers has no classifier for LFM2; its generic mixin makes one. The score is read at the
last token, the end token. A score that is not finite is no number: it is None.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stages.llm.tokenizer import must_exist
from stages.runtime.params import Runtime


def classifier_class(folder: Path | str) -> Any:
    """The class that reads a folder as a sequence classifier.

    AutoModel refuses to register classes for its own configurations, so LFM2 is resolved here.
    """
    from transformers import AutoConfig, AutoModelForSequenceClassification

    config = AutoConfig.from_pretrained(str(folder), trust_remote_code=False)
    if config.model_type != "lfm2":
        return AutoModelForSequenceClassification
    from transformers.modeling_layers import GenericForSequenceClassification
    from transformers.models.lfm2.modeling_lfm2 import Lfm2PreTrainedModel

    class Lfm2ForSequenceClassification(
        GenericForSequenceClassification,
        Lfm2PreTrainedModel,
    ):
        pass

    return Lfm2ForSequenceClassification


def load_reward_model(folder: Path | str, device: str = "cpu", **kwargs: Any) -> Any:
    """A classifier with one output, from a saved classifier or from a language model's body."""
    must_exist(folder)
    model = classifier_class(folder).from_pretrained(
        str(folder), num_labels=1, trust_remote_code=False, use_safetensors=True, **kwargs
    )
    return model.to(device).eval()


def sequence(tokenizer: Any, prompt: str, response: str) -> list[int]:
    """The tokens that a reward model reads: prompt, response and end token."""
    tokens: list[int] = tokenizer.encode(prompt, add_special_tokens=False)
    tokens += tokenizer.encode(response, add_special_tokens=False)
    return [*tokens, tokenizer.eos_token_id]


def scoring_batch(runtime: Runtime) -> int:
    """Sequences that are scored at once: no more than the device holds in a training step."""
    return min(runtime.generation_batch, runtime.micro_batch or runtime.generation_batch)


def in_order(chosen: float | None, rejected: float | None) -> bool | None:
    """Whether the chosen one has the higher score (strictly); None without both scores."""
    return None if chosen is None or rejected is None else chosen > rejected


def score(
    model: Any, tokenizer: Any, sequences: Sequence[Sequence[int]], batch: int
) -> list[float | None]:
    """One score per token sequence, in order; batched by length, padded on the right.

    None stands for a score that is NaN or infinite, as weights that diverged give.
    """
    import torch

    order = sorted(range(len(sequences)), key=lambda i: (len(sequences[i]), i))
    scores: list[float | None] = [None] * len(sequences)
    pad = tokenizer.pad_token_id
    with torch.inference_mode():
        for start in range(0, len(order), batch):
            indices = order[start : start + batch]
            longest = max(len(sequences[i]) for i in indices)
            ids = [[*sequences[i], *[pad] * (longest - len(sequences[i]))] for i in indices]
            mask = [[1] * len(sequences[i]) + [0] * (longest - len(sequences[i])) for i in indices]
            logits = model(
                input_ids=torch.tensor(ids, device=model.device),
                attention_mask=torch.tensor(mask, device=model.device),
            ).logits
            for index, value in zip(indices, logits[:, 0].float().tolist(), strict=True):
                scores[index] = value if math.isfinite(value) else None
    return scores
