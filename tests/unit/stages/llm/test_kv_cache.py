from __future__ import annotations

import json
from pathlib import Path

import pytest

from schemas.errors import UserError
from stages.llm.kv_cache import (
    GIB,
    Room,
    read_config,
    require_cache,
    stored_dtype,
    token_bytes,
    weight_bytes,
)

SMOLLM2 = {
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "hidden_size": 576,
    "head_dim": 64,
}


def test_a_token_of_smollm2_in_float32_takes_45_kib() -> None:
    assert token_bytes(SMOLLM2, 4) == 30 * 2 * 3 * 64 * 4 == 45 * 1024
    assert GIB // token_bytes(SMOLLM2, 4) == 23301


def test_devices_share_the_heads_but_each_has_one() -> None:
    assert token_bytes(SMOLLM2, 2, parallel=3) == token_bytes(SMOLLM2, 2) // 3
    assert token_bytes(SMOLLM2, 2, parallel=9) == token_bytes(SMOLLM2, 2) // 3


def test_only_layers_with_attention_have_keys() -> None:
    kinds = ["conv", "full_attention", "conv", "sliding_attention"]
    config = SMOLLM2 | {"num_hidden_layers": 4, "layer_types": kinds}
    assert token_bytes(config, 4) == 2 * 2 * 3 * 64 * 4


def test_linear_attention_keeps_no_keys() -> None:
    kinds = ["linear_attention"] * 3 + ["full_attention"]
    config = SMOLLM2 | {"num_hidden_layers": 4, "layer_types": kinds}
    assert token_bytes(config, 4) == 2 * 3 * 64 * 4


def test_latent_attention_keeps_one_vector() -> None:
    config = SMOLLM2 | {"kv_lora_rank": 512, "qk_rope_head_dim": 64}
    assert token_bytes(config, 2) == 30 * 576 * 2


def test_weights_are_counted_in_the_precision_they_are_computed_in(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(bytes(1000))
    assert weight_bytes(tmp_path, {"dtype": "bfloat16"}, 4) == 2000
    assert weight_bytes(tmp_path, {"torch_dtype": "float32"}, 2) == 500
    quantized = {"dtype": "bfloat16", "quantization_config": {"quant_method": "awq"}}
    assert weight_bytes(tmp_path, quantized, 2) == 1000


def test_the_stored_precision_is_float32_where_none_is_said() -> None:
    assert stored_dtype({}) == "float32"
    assert stored_dtype({"dtype": "float8_e4m3fn"}) == "bfloat16"


def room(**changes: int | None) -> Room:
    given = {"free": 8 * GIB, "cache": GIB, "weights": GIB // 2, "token": 46080, "window": 8192}
    return Room(**(given | changes))  # type: ignore[arg-type]


def test_one_whole_sequence_must_fit() -> None:
    require_cache("model", room(), "runtime.llm.vllm")
    with pytest.raises(UserError) as error:
        require_cache("model", room(window=32768), "runtime.llm.vllm")
    assert "hold 23301 tokens" in error.value.message
    assert "the window is 32768" in error.value.message
    assert "1.41 GiB for a sequence" in error.value.message
    assert "runtime.llm.vllm.max_model_len to 23301" in (error.value.fix or "")


def test_a_cache_that_is_not_free_is_refused() -> None:
    with pytest.raises(UserError, match="are not free") as error:
        require_cache("model", room(cache=10 * GIB), "runtime.llm.vllm")
    assert "lower runtime.llm.vllm.kv_cache_gib" in (error.value.fix or "")


def test_what_the_weights_leave_is_the_cache_where_none_is_set_apart() -> None:
    require_cache("model", room(cache=None), "runtime.llm.vllm")
    with pytest.raises(UserError, match="hold 0 tokens") as error:
        require_cache("model", room(cache=None, weights=9 * GIB), "runtime.llm.vllm")
    assert "more devices" in (error.value.fix or "")


def test_the_text_part_of_a_configuration_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"text_config": SMOLLM2}), encoding="utf-8")
    assert read_config(tmp_path) == SMOLLM2


@pytest.mark.parametrize("text", [None, "{", "[]"])
def test_no_configuration_is_named(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match="no model at"):
        read_config(tmp_path)
