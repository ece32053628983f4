from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas.errors import UserError
from stages.policy._engine import (
    check_engine,
    engine_arguments,
    engine_bytes,
    trainer_settings,
)
from stages.runtime.rollouts import RolloutSettings

ROOT = Path(__file__).parents[4]
SMOLLM2 = {
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "hidden_size": 576,
    "dtype": "float32",
}


def settings(**changes: Any) -> RolloutSettings:
    raw = yaml.safe_load((ROOT / "conf/runtime/local.yaml").read_text(encoding="utf-8"))
    return RolloutSettings(**(raw["rollouts"] | changes))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(SMOLLM2), encoding="utf-8")
    (tmp_path / "model.safetensors").write_bytes(bytes(4000))
    return tmp_path


def test_the_shipped_engine_is_transformers_and_takes_nothing_beside(model: Path) -> None:
    shipped = settings()
    check_engine(shipped, "cpu")
    assert trainer_settings(shipped, "cpu", 100) == {"use_vllm": False}
    assert engine_bytes(model, shipped, "cpu", 10**9) == 0


def test_vllm_is_given_the_length_that_the_data_needs() -> None:
    arguments = trainer_settings(settings(engine="vllm_colocate"), "cuda", 40_000)
    assert arguments["vllm_max_model_length"] == 40_000
    assert arguments["vllm_enable_sleep_mode"] is True
    assert (
        trainer_settings(settings(engine="vllm_colocate"), "cpu", 9)["vllm_enable_sleep_mode"]
        is False
    )


def test_memory_beside_the_training_is_counted(model: Path) -> None:
    chosen = settings(engine="vllm_colocate", kv_cache_gib=0.5)
    assert engine_bytes(model, chosen, "cpu", 1000) == 4000 + 2**29
    with pytest.raises(UserError, match="have up to 20000") as error:
        engine_bytes(model, chosen, "cpu", 20_000)
    assert "hold 11650 tokens" in error.value.message


def test_vllm_draws_by_the_seed_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal for the processes that share a model, another for each other one and each run."""
    from trl.generation import vllm_generation

    def built(run: int, group: int) -> dict[str, Any]:
        with engine_arguments(settings(engine="vllm_colocate"), "cuda", run):
            made: dict[str, Any] = vllm_generation.LLM(model="m", seed=group)
        assert vllm_generation.LLM is dict
        return made

    monkeypatch.setattr(vllm_generation, "LLM", dict, raising=False)
    found = {(run, group): built(run, group) for run in (1, 2) for group in (0, 1)}
    assert found[1, 0] == built(1, 0)
    assert found[1, 0]["model"] == "m" and found[1, 0]["load_format"] == "safetensors"
    seeds = {arguments["seed"] for arguments in found.values()}
    assert len(seeds) == 4 and all(0 <= seed < 2**32 for seed in seeds)


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed")
def test_vllm_must_be_there() -> None:
    with pytest.raises(UserError, match="vLLM is not installed"):
        check_engine(settings(engine="vllm_colocate"), "cpu")


@pytest.mark.parametrize(("trainers", "works"), [(1, False), (2, True), (3, False), (4, True)])
def test_vllm_spreads_over_the_processes_of_the_training(
    trainers: int, works: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stages.policy._engine.find_spec", lambda name: object())
    monkeypatch.setenv("LONGLINE_ACCELERATED", "1")
    monkeypatch.setenv("WORLD_SIZE", str(trainers))
    chosen = settings(engine="vllm_colocate", tensor_parallel=2)
    if works:
        check_engine(chosen, "cuda")
    else:
        with pytest.raises(UserError, match=rf"is 2, but GRPO trains in {trainers} process"):
            check_engine(chosen, "cuda")


@pytest.mark.parametrize(
    ("device", "told"), [("cpu", "over NCCL"), ("cuda", "rollouts.server is null")]
)
def test_a_server_needs_gpus_and_an_address(
    device: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stages.policy._engine.find_spec", lambda name: object())
    with pytest.raises(UserError, match=told):
        check_engine(settings(engine="vllm_server"), device)


def test_the_server_is_told_to_trl(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = settings(engine="vllm_server", server="http://127.0.0.1:8000")
    monkeypatch.setattr("stages.policy._engine.find_spec", lambda name: object())
    check_engine(chosen, "cuda")
    arguments = trainer_settings(chosen, "cuda", 100)
    assert arguments["vllm_mode"] == "server"
    assert arguments["vllm_server_base_url"] == "http://127.0.0.1:8000"
