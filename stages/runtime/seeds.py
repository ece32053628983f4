"""One call that makes training on CPU repeatable to the bit."""

from __future__ import annotations

import os

from stages.runtime.params import Runtime


def deterministic(seed: int, runtime: Runtime) -> None:
    """Seed every generator, fix the thread count, and ask torch for deterministic kernels.

    Sums depend on the number of threads, so equal results need equal `runtime.threads`.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import torch
    import transformers

    transformers.set_seed(seed % (1 << 32))
    torch.set_num_threads(runtime.threads)
    torch.use_deterministic_algorithms(True, warn_only=True)


def device(runtime: Runtime) -> str:
    """The torch device that `runtime.device` asks for."""
    import torch

    if runtime.device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return runtime.device
