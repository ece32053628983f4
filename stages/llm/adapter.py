"""What of a model is trained: all its weights, or a low-rank adapter (LoRA, arXiv 2106.09685).

After training the adapter is added into the weights, so that whatever reads the model next need not
know how it was trained.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from stages.llm.memory import Shape
from stages.runtime.variant import Settings


class Full(Settings):
    """All weights."""

    kind: Literal["full"]


class Lora(Settings):
    """To a weight comes alpha / rank times B A, and only A and B are trained."""

    kind: Literal["lora"]
    rank: int = Field(ge=1)
    alpha: int = Field(ge=1)
    dropout: float = Field(ge=0, lt=1)
    targets: tuple[str, ...] | Literal["all-linear"] = Field(
        description="Names of the layers that get an adapter, or all-linear"
    )


Adapter = Annotated[Full | Lora, Field(discriminator="kind")]


def peft_config(adapter: Full | Lora, task: Literal["CAUSAL_LM", "SEQ_CLS"]) -> Any:
    """The adapter as TRL's trainers take it, None for full fine-tuning."""
    if isinstance(adapter, Full):
        return None
    from peft import LoraConfig

    targets = adapter.targets if isinstance(adapter.targets, str) else list(adapter.targets)
    return LoraConfig(
        task_type=task,
        r=adapter.rank,
        lora_alpha=adapter.alpha,
        lora_dropout=adapter.dropout,
        target_modules=targets,
        # The score head is new: it is trained whole.
        modules_to_save=["score"] if task == "SEQ_CLS" else None,
    )


def merged(model: Any) -> Any:
    """The model with its adapter added in; a model without one as it is."""
    return model.merge_and_unload() if hasattr(model, "merge_and_unload") else model


def trained_parameters(adapter: Full | Lora, shape: Shape) -> int:
    """Numbers that are trained; for an adapter as if every layer of a block had one.

    In a block: query, key, value and output, and three of the feed-forward part. A layer from m to
    n numbers gets rank times (m + n).
    """
    if isinstance(adapter, Full):
        return shape.parameters
    attention = 2 * (2 * shape.hidden) + 2 * (shape.hidden + shape.key_values)
    feed_forward = 3 * (shape.hidden + shape.feed_forward)
    return adapter.rank * shape.layers * (attention + feed_forward)
