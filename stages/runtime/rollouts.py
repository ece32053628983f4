"""Settings under `runtime.rollouts`: where the policy's answers are sampled while it is trained.

None of them changes what is trained for, so none is part of a stage's identity.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from stages.runtime.variant import Settings


class RolloutSettings(Settings):
    """The engine that samples for TRL's GRPO."""

    engine: Literal["transformers", "vllm_colocate", "vllm_server"] = Field(
        description="vllm_colocate: vLLM in the training process, on its devices; vllm_server: a "
        "`vllm serve` on GPUs of its own, which gets the weights over NCCL"
    )
    gpu_memory_utilization: float = Field(
        gt=0, le=1, description="Share of a GPU's memory for vLLM beside the training"
    )
    kv_cache_gib: float | None = Field(
        gt=0,
        description="Memory for keys and values; null: on a GPU what gpu_memory_utilization "
        "leaves, on a CPU 1",
    )
    tensor_parallel: int = Field(ge=1, description="GPUs that share one copy in vLLM")
    sleep: bool = Field(
        description="On a GPU: vLLM gives its memory to the optimiser while it does not sample"
    )
    enforce_eager: bool = Field(description="Run vLLM without compiling the model")
    server: str | None = Field(
        pattern=r"^https?://", description="Base URL of the server, such as http://127.0.0.1:8000"
    )
    server_timeout: float = Field(gt=0, description="Seconds until the server must be there")
