"""Where GRPO's rollouts are sampled: by transformers, by vLLM beside the training, by a server.

TRL writes its own engine and tells it nothing of precision, cache or the defaults of the model's
generation_config, and gives it the process's number as a seed, whatever the run's. Left to itself,
vLLM would compute a float32 model in bfloat16 on a CPU, and draw the same for every seed. So what
TRL has no setting for is put in where it builds the engine, and only while it builds it. To be
removed when TRL's GRPOConfig takes arguments for vLLM's engine (it does not in 1.16).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from schemas.errors import UserError
from schemas.ids import seeded
from stages.llm.kv_cache import BYTES, GIB, read_config, token_bytes, weight_bytes
from stages.runtime import processes
from stages.runtime.rollouts import RolloutSettings

_CPU_CACHE_GIB = 1.0
_CPU_BLOCK = 32


def check_engine(settings: RolloutSettings, device: str) -> None:
    """`UserError` where the engine cannot be had, before a model is loaded."""
    if settings.engine == "transformers":
        return
    if find_spec("vllm") is None:
        raise UserError(
            f"runtime.rollouts.engine is {settings.engine}, but vLLM is not installed",
            fix="install it as README.md says, or set runtime.rollouts.engine to transformers",
        )
    trainers = processes.count()
    if settings.engine == "vllm_colocate" and trainers % settings.tensor_parallel:
        raise UserError(
            f"runtime.rollouts.tensor_parallel is {settings.tensor_parallel}, but GRPO trains in "
            f"{trainers} process(es): beside the training, vLLM spreads over its processes",
            fix="set runtime.rollouts.tensor_parallel to 1, or name in runtime.accelerate a file "
            "of `accelerate config` with a multiple of it as num_processes",
        )
    if settings.engine == "vllm_server" and device == "cpu":
        raise UserError(
            "runtime.rollouts.engine is vllm_server, but weights go to a server over NCCL, which "
            "needs a GPU here and others there",
            fix="set runtime.rollouts.engine to vllm_colocate or transformers",
        )
    if settings.engine == "vllm_server" and settings.server is None:
        raise UserError(
            "runtime.rollouts.engine is vllm_server, but runtime.rollouts.server is null",
            fix="start a server (docs/llm.md has the command) and set runtime.rollouts.server",
        )


def trainer_settings(settings: RolloutSettings, device: str, longest: int) -> dict[str, Any]:
    """Arguments of GRPOConfig. `longest` is the most tokens of a prompt and its answer."""
    if settings.engine == "transformers":
        return {"use_vllm": False}
    if settings.engine == "vllm_server":
        return {
            "use_vllm": True,
            "vllm_mode": "server",
            "vllm_server_base_url": settings.server,
            "vllm_server_timeout": settings.server_timeout,
        }
    return {
        "use_vllm": True,
        "vllm_mode": "colocate",
        "vllm_gpu_memory_utilization": settings.gpu_memory_utilization,
        "vllm_tensor_parallel_size": settings.tensor_parallel,
        "vllm_max_model_length": longest,
        "vllm_enable_sleep_mode": settings.sleep and device != "cpu",
    }


def engine_bytes(folder: Path, settings: RolloutSettings, device: str, longest: int) -> int:
    """Memory that vLLM takes beside the training.

    `UserError` where the cache does not hold one rollout of the greatest length.
    """
    if settings.engine != "vllm_colocate":
        return 0
    config = read_config(folder)
    precision = BYTES[_dtype(device)]
    weights = weight_bytes(folder, config, precision) // settings.tensor_parallel
    token = token_bytes(config, precision, settings.tensor_parallel)
    cache = _cache(settings, device)
    if cache is None:
        import torch

        share = int(torch.cuda.mem_get_info()[1] * settings.gpu_memory_utilization)
        cache = share - weights
    if cache < longest * token:
        raise UserError(
            f"rollouts: {max(cache, 0) / GIB:.2f} GiB for keys and values hold "
            f"{max(cache, 0) // token} tokens, but a prompt and its answer have up to {longest}",
            fix="raise runtime.rollouts.kv_cache_gib or gpu_memory_utilization, or shorten the "
            "contexts",
        )
    return weights + cache


@contextmanager
def engine_arguments(settings: RolloutSettings, device: str, seed: int) -> Iterator[None]:
    """While TRL builds its engine: the arguments that it does not pass, and a seed of the run's."""
    if settings.engine != "vllm_colocate":
        yield
        return
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    from trl.generation import vllm_generation

    given = {
        "dtype": _dtype(device),
        "kv_cache_memory_bytes": _cache(settings, device),
        "enforce_eager": settings.enforce_eager,
        "generation_config": "vllm",
        "load_format": "safetensors",
    } | ({"block_size": _CPU_BLOCK} if device == "cpu" else {})
    own = vllm_generation.LLM

    def build(**passed: Any) -> Any:
        # Processes that compute one answer together pass one number, others their own.
        drawn = seeded(seed, "rollouts", passed["seed"]) % (1 << 32)
        return own(**passed | given | {"seed": drawn})

    vllm_generation.LLM = build
    try:
        with _plain_weights() if device == "cpu" else nullcontext():
            yield
    finally:
        vllm_generation.LLM = own


@contextmanager
def _plain_weights() -> Iterator[None]:
    """While vLLM builds a model for a CPU: linear layers that read their weights at each call."""
    import torch
    from vllm.model_executor.layers import utils

    own = utils.dispatch_cpu_unquantized_gemm

    def plain(layer: Any, remove_weight: bool) -> None:
        if layer.weight.ndim == 2:
            layer.cpu_linear = torch.nn.functional.linear
        else:
            own(layer, remove_weight)

    utils.dispatch_cpu_unquantized_gemm = plain
    try:
        yield
    finally:
        utils.dispatch_cpu_unquantized_gemm = own


def _dtype(device: str) -> str:
    """As the training computes."""
    return "float32" if device == "cpu" else "bfloat16"


def _cache(settings: RolloutSettings, device: str) -> int | None:
    gib = settings.kv_cache_gib or (_CPU_CACHE_GIB if device == "cpu" else None)
    return None if gib is None else int(gib * GIB)
