"""Training in several processes: a stage starts itself again under `accelerate launch`.

With `runtime.accelerate` naming a file of `accelerate config`, the training stages replace their
process by Accelerate's launcher, which starts one process a device with the same command. Each of
them runs the whole stage; the first one alone speaks, writes the run log and publishes. A process
trains on one GPU: transformers would spread one process over all it sees, and TRL refuses that.

Data-parallel training is supported. Sharded weights (FSDP, DeepSpeed) are refused, since nothing
here gathers them for saving yet.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schemas.errors import UserError

TRAINING = ("warmup", "reward_model", "policy")
_STARTED = "LONGLINE_ACCELERATED"


def started() -> bool:
    """Whether this process was started by the launcher for this stage."""
    return os.environ.get(_STARTED) == "1"


def is_first() -> bool:
    """Whether this is the process that speaks and publishes."""
    return not started() or os.environ.get("RANK", "0") == "0"


def count() -> int:
    """Processes that train together."""
    return int(os.environ.get("WORLD_SIZE", "1")) if started() else 1


def launch(stage: str, accelerate: str | None, arguments: Sequence[str]) -> None:
    """Replace this process by the launcher, if the stage trains and the runtime says so.

    The process id stays, so whoever waits for this process, or stops it, need not know.
    """
    if accelerate is None or stage not in TRAINING or started():
        return
    if not Path(accelerate).is_file():
        raise UserError(
            f"runtime.accelerate: no file '{accelerate}'",
            fix=f"accelerate config --config_file {accelerate}",
        )
    command = ["-m", "accelerate.commands.launch", "--config_file", accelerate, "-m", "stages"]
    os.environ[_STARTED] = "1"
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *command, *arguments])  # noqa: S606 (no shell wanted)


def one_gpu(stage: str) -> None:
    """Hide all GPUs but the first from a training stage that no launcher started.

    To be called before CUDA starts, which reads the environment once.
    """
    if stage in TRAINING and not started():
        seen = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
        os.environ["CUDA_VISIBLE_DEVICES"] = seen.split(",")[0]


def take_own_gpu() -> None:
    """Under the launcher: make this process's GPU the one that "cuda" means."""
    if started():
        import torch

        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))


def require_whole_weights(trainer: Any) -> None:
    """Refuse a launch that would split the weights over the processes."""
    kind = trainer.accelerator.distributed_type.name
    if kind in ("FSDP", "DEEPSPEED", "MEGATRON_LM"):
        raise UserError(
            f"runtime.accelerate asks for {kind}, which splits the weights",
            allowed=["NO", "MULTI_GPU", "MULTI_CPU"],
            fix="accelerate config, with plain multi-GPU training",
        )


def gathered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of all processes, in the order of the processes."""
    if count() == 1:
        return rows
    from accelerate.utils import gather_object

    everything: list[dict[str, Any]] = gather_object(rows)
    return everything
