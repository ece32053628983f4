"""How much memory training will need, told before it starts: refuse with numbers, do not run out.

An estimate from the model's configuration, the headers of its weight files and the lengths of the
data; no weights are loaded. It counts one device, without sharding, and is meant to be somewhat
high. What it leaves out: fragmentation, and the buffers of kernels.

- weights: parameters times bytes a number; gradients and AdamW's two moments for those trained
- copies: what is trained in 4 bytes and computed in fewer is cast once for a forward pass, and kept
- buckets: of several processes, each collects its gradients once more to exchange them
- reference: the model at the start, in 4 bytes, where the loss compares with it
- mask: who may attend to whom in a padded batch, as truth values and as numbers to be added
- activations: with checkpointing, each layer's input and one layer in full; without it, every layer
  in full (the terms are counted in `layer_numbers`, in the way of Korthikanti et al., arXiv
  2205.05198, section 4, for attention that never stores its matrix)
- logits: three copies in 4 bytes (logits, their softmax, the gradient)
- cache: keys and values of the sequences that are sampled together
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from schemas.errors import UserError
from stages.llm.container import container_free

MIB = 1 << 20
SPARE = 256 * MIB
"""Left free: the libraries' own buffers."""


@dataclass(frozen=True)
class Shape:
    """What of a model's shape decides its memory."""

    parameters: int
    layers: int
    hidden: int
    feed_forward: int
    queries: int
    """Numbers of queries of one token in one layer; heads need not fill the hidden size."""
    key_values: int
    """Numbers of keys, or of values, of one token in one layer."""
    vocabulary: int


@dataclass(frozen=True)
class Training:
    """What of a training run decides its memory. Lengths are in tokens, `precision` in bytes."""

    sequence: int
    micro_batch: int
    trained: int
    """Parameters that are trained; all of the model's, or those of its adapter."""
    precision: int
    checkpointing: bool
    logits: int = 0
    """Positions of a sequence whose logits are needed at once."""
    sampled: int = 0
    """Sequences that are sampled together, with their keys and values kept."""
    processes: int = 1
    reference: bool = False
    """Whether the whole model is kept once more as it was at the start."""


def read_shape(folder: Path) -> Shape:
    """The shape of a saved model, from config.json and the headers of its safetensors files."""
    try:
        raw: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        config = raw.get("text_config", raw)
        heads = config["num_attention_heads"]
        head = config.get("head_dim") or config["hidden_size"] // heads
        return Shape(
            parameters=count_parameters(folder),
            layers=config["num_hidden_layers"],
            hidden=config["hidden_size"],
            feed_forward=_feed_forward(config),
            queries=head * heads,
            key_values=head * (config.get("num_key_value_heads") or heads),
            vocabulary=config["vocab_size"],
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"the model at {folder} cannot be read: {error!r}",
            fix="name a folder with config.json and *.safetensors of a causal language model",
        ) from error


def _feed_forward(config: Mapping[str, Any]) -> int:
    """Width of what a token passes through; in a mixture, of the experts that it is sent to."""
    experts = config.get("num_experts_per_tok")
    if experts and config.get("moe_intermediate_size"):
        return int(experts) * int(config["moe_intermediate_size"])
    return int(config.get("intermediate_size") or 4 * config["hidden_size"])


def count_parameters(folder: Path) -> int:
    """Numbers in the weight files, from their headers alone."""
    from safetensors import SafetensorError, safe_open

    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ValueError("no *.safetensors file")
    total = 0
    for file in files:
        try:
            with safe_open(file, framework="np") as tensors:
                names = tensors.keys()
                total += sum(prod(tensors.get_slice(name).get_shape()) for name in names)
        except SafetensorError as error:
            raise ValueError(f"{file.name}: {error}") from error
    return total


def layer_numbers(shape: Shape) -> int:
    """Numbers that one layer keeps for its backward pass, for one token.

    Two norms with their 4-byte copies; query, key, value and output of the attention; gate, up,
    their product and the activation of the feed-forward part, and its input.
    """
    norms = 2 * 3 * shape.hidden
    attention = shape.hidden + 2 * shape.queries + 2 * shape.key_values
    return norms + attention + shape.hidden + 4 * shape.feed_forward


def estimate(shape: Shape, training: Training) -> dict[str, int]:
    """Bytes by purpose."""
    tokens = training.sequence * training.micro_batch
    layer = tokens * layer_numbers(shape) * training.precision
    inputs = tokens * shape.hidden * training.precision
    if training.trained == shape.parameters:  # full: trained in 4 bytes, whatever computes
        weights = 4 * shape.parameters
    else:  # adapters in 4 bytes beside a model that keeps its precision
        weights = training.precision * shape.parameters + 4 * training.trained
    return {
        "weights": weights,
        "gradients": 4 * training.trained,
        "optimiser": 8 * training.trained,
        "copies": training.precision * training.trained if training.precision < 4 else 0,
        "buckets": 4 * training.trained if training.processes > 1 else 0,
        "reference": 4 * shape.parameters if training.reference else 0,
        "mask": (1 + training.precision) * training.micro_batch * training.sequence**2,
        "activations": shape.layers * inputs + layer
        if training.checkpointing
        else shape.layers * (inputs + layer),
        "logits": 3 * 4 * training.micro_batch * training.logits * shape.vocabulary,
        "cache": 2
        * training.precision
        * training.sampled
        * training.sequence
        * shape.layers
        * shape.key_values,
        "spare": SPARE,
    }


def available(device: str) -> int:
    """Bytes that are free now, on the GPU or in memory: the machine's, or what a container's limit
    leaves of it."""
    if device.startswith("cuda"):
        import torch

        free: int = torch.cuda.mem_get_info()[0]
        return free
    import psutil

    machine = int(psutil.virtual_memory().available)
    own = container_free()
    return machine if own is None else min(machine, own)


def require_memory(needed: Mapping[str, int], free: int, what: str, fix: str) -> None:
    """Raise `UserError` with the numbers when more is needed than is free."""
    total = sum(needed.values())
    if total <= free:
        return
    parts = ", ".join(f"{name} {_gib(size)}" for name, size in needed.items() if size)
    raise UserError(
        f"{what} needs about {_gib(total)} GiB ({parts}), but {_gib(free)} GiB are free", fix=fix
    )


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f}"
