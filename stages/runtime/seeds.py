"""One call that makes training on CPU repeatable to the bit."""

from __future__ import annotations

import contextlib
import ctypes
import os

from stages.runtime.params import Runtime
from stages.runtime.processes import take_own_gpu


def deterministic(seed: int, runtime: Runtime) -> None:
    """Seed every generator, fix the thread count, and ask torch for deterministic kernels.

    Sums depend on the number of threads, so equal results need equal `runtime.threads`. One of
    several processes takes its own GPU first: what comes next may already compute on it.
    """
    _keep_freed_memory()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import torch
    import transformers

    _quiet()
    if device(runtime) != "cpu":
        take_own_gpu()
    transformers.set_seed(seed % (1 << 32))
    torch.set_num_threads(runtime.threads)
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Filling every new tensor took half of a training step, and guards only against reading
    # memory that was never written.
    torch.utils.deterministic.fill_uninitialized_memory = False


def device(runtime: Runtime) -> str:
    """The torch device that `runtime.device` asks for."""
    import torch

    if runtime.device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return runtime.device


def _quiet() -> None:
    """Keep the libraries' progress bars and notices out of the log; errors still show."""
    import datasets
    import transformers

    datasets.disable_progress_bars()
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()


def _keep_freed_memory() -> None:
    """Let glibc reuse freed blocks instead of giving them back to the kernel.

    Training allocates the same large blocks at every step; handing them back and faulting them in
    again made a step a third longer (bench/README.md). Elsewhere than on glibc nothing happens.
    """
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD: blocks up to 1 GiB come from the heap
        mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD: keep up to 2 GiB free at its top
