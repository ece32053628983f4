"""Settings of vLLM under `runtime.llm.vllm`: how its engine is laid out on this machine.

None of them changes what is asked, so none is part of a stage's identity.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from stages.runtime.variant import Settings


class VllmSettings(Settings):
    """vLLM's offline engine in this process."""

    tensor_parallel: int = Field(ge=1, description="GPUs that share one copy of the model")
    data_parallel: int = Field(
        ge=1, description="Copies of the model; more than one run under `vllm serve`"
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        description="auto: as the weights are stored"
    )
    max_model_len: int | None = Field(
        ge=1, description="Most tokens of prompt and answer together; null: all the model has"
    )
    kv_cache_gib: float | None = Field(
        gt=0,
        description="Memory for keys and values; null: on a GPU what gpu_memory_utilization "
        "leaves, on a CPU 4",
    )
    gpu_memory_utilization: float = Field(gt=0, le=1, description="Share of a GPU's memory to use")
    block_size: int | None = Field(
        ge=1,
        description="Tokens of a block of the prefix cache, which only holds whole blocks; null: "
        "vLLM's own, but on a CPU 32, the least there, since with 128 more is computed anew",
    )
    prefix_caching: bool = Field(description="Compute a beginning that prompts share once")
    max_num_seqs: int = Field(ge=1, description="Most answers that are generated together")
    max_num_batched_tokens: int | None = Field(
        ge=1, description="Most tokens of one step; null: vLLM's own choice"
    )
    enforce_eager: bool = Field(
        description="Run the model without compiling it: a faster start and slower answers"
    )
