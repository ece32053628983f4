"""Memory for keys and values of an inference engine, told before the engine starts.

A token needs, in each layer with attention, its keys and its values: 2 x key-value heads x head
width numbers (for latent attention, DeepSeek-V2, arXiv 2405.04434, section 2.1: one compressed
vector and one rotary key). What is not counted: buffers of the engine itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.errors import UserError

GIB = 1 << 30
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True)
class Room:
    """What the engine is given. Memory in bytes, lengths in tokens."""

    free: int
    """Memory that is there for weights and cache together."""
    cache: int | None
    """Memory set apart for the cache; None is what the weights leave."""
    weights: int
    token: int
    """Bytes of one token."""
    window: int
    """Longest sequence; one of this length has to fit."""


def read_config(folder: Path) -> dict[str, Any]:
    """The configuration of the text model in a folder. `UserError` where there is none."""
    try:
        raw: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        text: dict[str, Any] = raw.get("text_config", raw)
    except (OSError, ValueError, AttributeError) as error:
        raise UserError(
            f"no model at {folder}: {error}",
            fix=f"dvc repro, where a stage makes {folder}; else correct the path in conf/",
        ) from error
    return text


def stored_dtype(config: Mapping[str, Any]) -> str:
    """The precision in which the weights are stored, as vLLM names it."""
    found = str(config.get("dtype") or config.get("torch_dtype") or "float32")
    return found if found in BYTES else "bfloat16"


def token_bytes(config: Mapping[str, Any], precision: int, parallel: int = 1) -> int:
    """Bytes of one token's keys and values on one of `parallel` devices."""
    kinds = config.get("layer_types")
    layers = int(config["num_hidden_layers"])
    attending = (
        sum("attention" in kind and kind != "linear_attention" for kind in kinds)
        if kinds
        else layers
    )
    if config.get("kv_lora_rank"):
        numbers = int(config["kv_lora_rank"]) + int(config.get("qk_rope_head_dim") or 0)
        return attending * numbers * precision
    heads = int(config["num_attention_heads"])
    width = int(config.get("head_dim") or config["hidden_size"] // heads)
    key_values = max(int(config.get("num_key_value_heads") or heads) // parallel, 1)
    return 2 * attending * key_values * width * precision


def weight_bytes(folder: Path, config: Mapping[str, Any], precision: int) -> int:
    """Bytes of the weights in the precision they are computed in, from the sizes of the files."""
    size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    if config.get("quantization_config"):
        return size
    return size * precision // BYTES[stored_dtype(config)]


def require_cache(what: str, room: Room, keys: str) -> None:
    """`UserError` with the numbers where one sequence of the whole window cannot be held.

    `keys` names the settings of the engine, such as runtime.llm.vllm.
    """
    needed = room.window * room.token
    left = room.free - room.weights
    given = left if room.cache is None else room.cache
    numbers = (
        f"{room.token / 1024:.1f} KiB a token, {_gib(needed)} GiB for a sequence of {room.window}; "
        f"weights {_gib(room.weights)} GiB; free {_gib(room.free)} GiB"
    )
    if given < needed:
        held = max(given, 0) // room.token
        raise UserError(
            f"{what}: {_gib(max(given, 0))} GiB for keys and values hold {held} tokens, but the "
            f"window is {room.window} ({numbers})",
            fix=f"lower {keys}.max_model_len to {held} or less, or raise {keys}.kv_cache_gib"
            if held
            else "take a smaller model or precision, or more devices",
        )
    if room.cache is not None and room.cache > left:
        raise UserError(
            f"{what}: {_gib(room.cache)} GiB for keys and values are not free ({numbers})",
            fix=f"lower {keys}.kv_cache_gib, or end other programs",
        )


def _gib(size: int) -> str:
    return f"{size / GIB:.2f}"
