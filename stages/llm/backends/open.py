"""Opening the back end that `runtime.llm` names. Its libraries are imported only then."""

from __future__ import annotations

from stages.llm.backends.protocol import Backend
from stages.llm.model import Model
from stages.runtime.llm import LlmChoice, ServerSettings
from stages.runtime.params import Runtime


def open_backend(model: Model, settings: LlmChoice, runtime: Runtime) -> Backend:
    """An open back end. `UserError` when the model or the server is not there."""
    if settings.backend == "server":
        from stages.llm.backends.server import open_server

        return open_server(model, settings.server)
    if settings.backend == "vllm" and settings.vllm.data_parallel > 1:
        from stages.llm.backends.server import open_server

        return open_server(model, several_copies(settings))
    if settings.backend == "vllm":
        from stages.llm.backends.vllm import open_vllm

        return open_vllm(model, settings.vllm)
    from stages.llm.backends.transformers import open_transformers

    return open_transformers(model, settings.transformers, runtime)


def several_copies(settings: LlmChoice) -> ServerSettings:
    """A server of the stage's own with several copies of the model.

    vLLM's offline engine is one copy; its server has the processes that copies need, and shares
    the requests out.
    """
    vllm = settings.vllm
    options: dict[str, bool | int | float | str | None] = {
        "data-parallel-size": vllm.data_parallel,
        "tensor-parallel-size": vllm.tensor_parallel,
        "dtype": None if vllm.dtype == "auto" else vllm.dtype,
        "max-model-len": vllm.max_model_len,
        "gpu-memory-utilization": vllm.gpu_memory_utilization,
        "kv-cache-memory-bytes": None
        if vllm.kv_cache_gib is None
        else int(vllm.kv_cache_gib * 2**30),
        "block-size": vllm.block_size,
        "enable-prefix-caching": vllm.prefix_caching,
        "max-num-seqs": vllm.max_num_seqs,
        "max-num-batched-tokens": vllm.max_num_batched_tokens,
        "enforce-eager": vllm.enforce_eager,
    }
    given = {name: value for name, value in options.items() if value is not None}
    server = settings.server
    serve = server.serve.model_copy(update={"arguments": given | server.serve.arguments})
    return server.model_copy(
        update={
            "url": None,
            "api": "vllm",
            "serve": serve,
            "max_concurrency": max(
                server.max_concurrency, 2 * vllm.max_num_seqs * vllm.data_parallel
            ),
        }
    )
