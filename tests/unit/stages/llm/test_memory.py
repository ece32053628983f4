"""Memory is told before training, from the model's files alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import UserError
from stages.llm.memory import (
    Shape,
    Training,
    available,
    count_parameters,
    estimate,
    layer_numbers,
    read_shape,
    require_memory,
)

SHAPE = Shape(
    parameters=1_000_000, layers=4, hidden=64, feed_forward=256, queries=64, key_values=32,
    vocabulary=1000,
)  # fmt: skip


def small_llama(folder: Path, **changed: Any) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes: dict[str, Any] = {
        "vocab_size": 101, "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, **changed,
    }  # fmt: skip
    model = LlamaForCausalLM(LlamaConfig(**sizes))
    model.save_pretrained(folder)
    return model


@pytest.mark.parametrize("tied", [True, False])
def test_parameters_are_those_of_the_model(tmp_path: Path, tied: bool) -> None:
    model = small_llama(tmp_path, tie_word_embeddings=tied)
    assert count_parameters(tmp_path) == sum(p.numel() for p in model.parameters())
    shape = read_shape(tmp_path)
    assert (shape.layers, shape.hidden, shape.feed_forward) == (3, 64, 160)
    assert (shape.queries, shape.key_values, shape.vocabulary) == (64, 32, 101)


def test_heads_that_do_not_fill_the_hidden_size(tmp_path: Path) -> None:
    """As in Qwen3-0.6B: 16 heads of 128 over a hidden size of 1024."""
    small_llama(tmp_path, head_dim=32)
    shape = read_shape(tmp_path)
    assert (shape.hidden, shape.queries, shape.key_values) == (64, 128, 64)


@pytest.mark.parametrize("head", [None, 64])
def test_what_a_layer_keeps_is_what_torch_keeps(tmp_path: Path, head: int | None) -> None:
    """The count against the tensors that torch saves for the backward pass of a real model."""
    import torch

    kept: dict[int, int] = {}
    model = small_llama(tmp_path, head_dim=head)
    model.config._attn_implementation = "sdpa"
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    tokens = 256
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = model.model(input_ids=torch.arange(tokens).remainder(101)[None])
    assert output.last_hidden_state.requires_grad
    shape = read_shape(tmp_path)
    counted = 4 * tokens * shape.layers * (layer_numbers(shape) + shape.hidden)
    assert 0.7 <= counted / sum(kept.values()) <= 1.5


def test_a_mixture_counts_the_experts_of_a_token(tmp_path: Path) -> None:
    small_llama(tmp_path)
    file = tmp_path / "config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    config |= {"num_experts_per_tok": 8, "moe_intermediate_size": 48}
    file.write_text(json.dumps(config), encoding="utf-8")
    assert read_shape(tmp_path).feed_forward == 8 * 48


def test_known_numbers() -> None:
    """A model of 8 billion parameters, all trained: 16 bytes a parameter before anything else."""
    shape = Shape(8_000_000_000, 36, 4096, 12288, 4096, 1024, 151936)
    full = estimate(shape, Training(1, 1, shape.parameters, 2, True))
    assert full["weights"] + full["gradients"] + full["optimiser"] == 16 * shape.parameters
    assert full["copies"] == 2 * shape.parameters
    assert estimate(shape, Training(1, 1, shape.parameters, 4, True))["copies"] == 0
    assert (full["buckets"], full["reference"]) == (0, 0)
    several = estimate(shape, Training(1, 1, shape.parameters, 2, True, processes=2))
    assert several["buckets"] == 4 * shape.parameters
    compared = estimate(shape, Training(1, 1, shape.parameters, 2, True, reference=True))
    assert compared["reference"] == 4 * shape.parameters
    lora = estimate(shape, Training(1, 1, 40_000_000, 2, True))
    assert lora["weights"] == 2 * shape.parameters + 4 * 40_000_000
    # 32,768 tokens of 36 layers: 2 x 1024 numbers of 2 bytes each
    cached = estimate(shape, Training(32768, 1, 1, 2, True, sampled=1))["cache"]
    assert cached == 2 * 2 * 1024 * 36 * 32768
    # A truth value and a number of 2 bytes for each pair of 32,768 places, of two sequences
    assert estimate(shape, Training(32768, 2, 1, 2, True))["mask"] == 2 * 3 * 2**30
    logits = estimate(shape, Training(32768, 2, 1, 2, True, logits=1024))["logits"]
    assert logits == 12 * 2 * 1024 * 151936


@given(
    st.integers(1, 100_000), st.integers(1, 64), st.integers(1, 1_000_000), st.booleans(),
    st.integers(0, 100), st.integers(0, 100),
)  # fmt: skip
def test_more_needs_more(
    sequence: int, micro: int, trained: int, checkpointing: bool, logits: int, sampled: int
) -> None:
    def total(**changed: Any) -> int:
        values = {
            "sequence": sequence, "micro_batch": micro, "trained": trained, "precision": 2,
            "checkpointing": checkpointing, "logits": logits, "sampled": sampled,
        }  # fmt: skip
        return sum(estimate(SHAPE, Training(**{**values, **changed})).values())

    before = total()
    assert total(sequence=2 * sequence) > before
    assert total(micro_batch=2 * micro) > before
    assert total(logits=logits + 1) > before
    assert total(sampled=sampled + 1) > before
    assert total(precision=4) > before
    assert total(checkpointing=True) <= total(checkpointing=False)


def test_too_much_is_refused_with_the_numbers() -> None:
    needed = {"weights": 3 << 30, "cache": 0, "activations": 1 << 30}
    require_memory(needed, 4 << 30, "training", "use less")
    with pytest.raises(UserError) as refused:
        require_memory(needed, (4 << 30) - 1, "training", "use less")
    assert refused.value.message == (
        "training needs about 4.0 GiB (weights 3.0, activations 1.0), but 4.0 GiB are free"
    )
    assert refused.value.fix == "use less"


def test_this_machine_has_memory() -> None:
    assert available("cpu") > 1 << 20


@pytest.mark.parametrize("content", [b"", b"\xff" * 8, b"\x02\0\0\0\0\0\0\0[]", b"\x04\0\0\0"])
def test_a_broken_weight_file(tmp_path: Path, content: bytes) -> None:
    small_llama(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(UserError, match="cannot be read"):
        read_shape(tmp_path)


def test_no_model(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        read_shape(tmp_path)
