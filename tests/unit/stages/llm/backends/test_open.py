from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas.errors import UserError
from stages.llm.backends.open import open_backend, several_copies
from stages.llm.model import Model
from stages.runtime.params import Runtime

ROOT = Path(__file__).parents[5]


def runtime(**llm: Any) -> Runtime:
    raw = yaml.safe_load((ROOT / "conf/runtime/local.yaml").read_text(encoding="utf-8"))
    raw["llm"]["vllm"] |= llm
    raw["llm"]["backend"] = "vllm"
    return Runtime(**raw)


def test_several_copies_are_a_server_of_the_stages_own() -> None:
    chosen = runtime(data_parallel=4, tensor_parallel=2, kv_cache_gib=1.5, dtype="bfloat16").llm
    server = several_copies(chosen)
    assert server.url is None
    assert server.api == "vllm"
    assert server.serve.arguments["data-parallel-size"] == 4
    assert server.serve.arguments["tensor-parallel-size"] == 2
    assert server.serve.arguments["kv-cache-memory-bytes"] == 3 * 2**29
    assert server.serve.arguments["dtype"] == "bfloat16"
    assert "block-size" not in server.serve.arguments
    assert server.max_concurrency == 2 * 256 * 4


def test_options_of_the_server_go_before_those_of_the_engine() -> None:
    chosen = runtime(data_parallel=2).llm
    serve = chosen.server.serve.model_copy(update={"arguments": {"max-num-seqs": 7}})
    server = chosen.server.model_copy(update={"serve": serve})
    assert (
        several_copies(chosen.model_copy(update={"server": server})).serve.arguments["max-num-seqs"]
        == 7
    )


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (Model(name="served"), "vLLM loads a folder"),
        (Model(folder="models/nothing"), "no model at models/nothing"),
    ],
)
def test_vllm_wants_a_folder_with_a_model(model: Model, told: str) -> None:
    chosen = runtime()
    with pytest.raises(UserError, match=told):
        open_backend(model, chosen.llm, chosen)


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed")
def test_without_vllm_the_error_says_how_to_get_it(tiny_model: Path) -> None:
    chosen = runtime()
    with pytest.raises(UserError, match="vLLM cannot be imported") as error:
        open_backend(Model(folder=str(tiny_model)), chosen.llm, chosen)
    assert "longline[cpu]" in (error.value.fix or "")
