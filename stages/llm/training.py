"""What the three trainers (SFT, reward model, GRPO) share: arguments, memory, progress, saving.

On a GPU training computes in bfloat16 with gradient checkpointing: all weights are kept in float32
when all are trained, and the model stays in bfloat16 beside a float32 adapter. On a CPU everything
is float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from schemas.errors import UserError
from stages.llm.adapter import Full, Lora, trained_parameters
from stages.llm.memory import Training, available, estimate, read_shape, require_memory
from stages.runtime import processes
from stages.runtime.context import StageContext
from stages.runtime.params import Runtime
from stages.runtime.progress import say
from stages.runtime.seeds import device
from stages.runtime.variant import Settings


class Optimisation(Settings):
    """The optimiser's part of a stage's identity."""

    steps: int = Field(ge=1)
    batch: int = Field(ge=1, description="Sequences (or pairs, or rollouts) in one step")
    learning_rate: float = Field(gt=0)
    warmup_steps: int = Field(ge=0)
    schedule: Literal["constant_with_warmup", "linear", "cosine", "warmup_stable_decay"] = Field(
        description="warmup_stable_decay falls linearly over the last 30 % of the steps"
    )
    weight_decay: float = Field(ge=0)


def trainer_arguments(
    context: StageContext, optimisation: Optimisation, seed: int
) -> dict[str, Any]:
    """Arguments for any TRL trainer. Nothing is sent out, saved half-way or run in half precision
    on CPU; data order and initialisation follow `seed`."""
    on_cpu = device(context.params.runtime) == "cpu"
    micro = micro_batch(context.params.runtime, optimisation)
    return {
        "output_dir": str(context.scratch / "trainer"),
        "max_steps": optimisation.steps,
        "per_device_train_batch_size": micro,
        "gradient_accumulation_steps": optimisation.batch // (micro * processes.count()),
        "ddp_find_unused_parameters": False if processes.count() > 1 else None,
        "learning_rate": optimisation.learning_rate,
        "warmup_steps": optimisation.warmup_steps,
        "lr_scheduler_type": optimisation.schedule,
        "lr_scheduler_kwargs": _schedule_arguments(optimisation),
        "weight_decay": optimisation.weight_decay,
        "seed": seed % (1 << 32),
        "data_seed": seed % (1 << 32),
        "use_cpu": on_cpu,
        "bf16": not on_cpu,
        "gradient_checkpointing": not on_cpu,
        "report_to": "none",
        "save_strategy": "no",
        "logging_steps": max(1, min(10, optimisation.steps // 4)),
        "disable_tqdm": True,
        "dataloader_num_workers": 0,
        "dataloader_pin_memory": not on_cpu,
    }


def micro_batch(runtime: Runtime, optimisation: Optimisation) -> int:
    """Sequences in a device's memory at once; a step adds up the gradients of `batch` in all."""
    devices = processes.count()
    share, rest = divmod(optimisation.batch, devices)
    if rest:
        raise UserError(
            f"{devices} processes cannot share a step of {optimisation.batch} sequences evenly",
            fix="give runtime.accelerate a number of processes that divides the step",
        )
    micro = min(runtime.micro_batch or share, share)
    if share % micro:
        raise UserError(
            f"runtime.micro_batch ({micro}) does not divide the {share} sequences of a step"
            + (f" on each of {devices} devices" if devices > 1 else ""),
            allowed=[n for n in range(1, share + 1) if share % n == 0],
        )
    return micro


def weights_dtype(runtime: Runtime, adapter: Full | Lora) -> str:
    """The dtype in which the weights are kept while they are trained."""
    return "float32" if isinstance(adapter, Full) or device(runtime) == "cpu" else "bfloat16"


def check_memory(
    what: str,
    folder: Path,
    runtime: Runtime,
    optimisation: Optimisation,
    adapter: Full | Lora,
    *,
    sequence: int,
    sequences_each: int = 1,
    logits: int = 0,
    sampled: int = 0,
    reference: bool = False,
    beside: Mapping[str, int] | None = None,
) -> None:
    """Refuse, before a weight is loaded, what would run out of memory. Lengths are in tokens.

    `sequences_each` is how many sequences one member of the batch has: two for a pair. With
    `reference` the loss needs the model as it was at the start; an adapter that is switched off is
    that model. `beside` is what else the device holds, in bytes by name, such as another engine.
    """
    shape = read_shape(folder)
    on_cpu = device(runtime) == "cpu"
    needed = estimate(
        shape,
        Training(
            sequence=sequence,
            micro_batch=micro_batch(runtime, optimisation) * sequences_each,
            trained=trained_parameters(adapter, shape),
            precision=4 if on_cpu else 2,
            checkpointing=not on_cpu,
            logits=logits,
            sampled=sampled,
            processes=processes.count(),
            reference=reference and isinstance(adapter, Full),
        ),
    )
    require_memory(
        needed | dict(beside or {}),
        available(device(runtime)),
        f"{what} of {shape.parameters / 1e6:.1f} M parameters at {sequence} tokens",
        "lower runtime.micro_batch, train an adapter (adapter=lora), shorten the contexts, or take "
        "a smaller model",
    )


def _schedule_arguments(optimisation: Optimisation) -> dict[str, Any]:
    if optimisation.schedule != "warmup_stable_decay":
        return {}
    return {"num_decay_steps": round(0.3 * optimisation.steps), "decay_type": "linear"}


def progress_callback(label: str, every: int = 25) -> Any:
    """A trainer callback that says where training is and keeps the logs in `.history`."""
    from transformers import TrainerCallback

    class Progress(TrainerCallback):
        def __init__(self) -> None:
            self.history: list[dict[str, float]] = []

        def on_log(
            self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None,
            **kwargs: Any,
        ) -> None:  # fmt: skip
            if not logs or "train_runtime" in logs:
                return
            numbers = {k: float(v) for k, v in logs.items() if isinstance(v, int | float)}
            self.history.append({"step": float(state.global_step), **numbers})
            if state.global_step % every == 0:
                shown = {k: numbers[k] for k in ("loss", "reward", "accuracy") if k in numbers}
                text = ", ".join(f"{key} {value:.3f}" for key, value in shown.items())
                say(f"{label}: step {state.global_step}/{state.max_steps}, {text}")

    return Progress()


def train(trainer: Any) -> None:
    """Train without the trainer's own console output."""
    from transformers import PrinterCallback

    processes.require_whole_weights(trainer)
    trainer.remove_callback(PrinterCallback)
    trainer.train()


def save(model: Any, tokenizer: Any, folder: Path, dtype: Any = None) -> None:
    """Weights as safetensors, with configuration and tokenizer, and nothing of the trainer.

    `dtype` is that of the model which training began with; None keeps the weights as they are.
    """
    if dtype is not None:
        model = model.to(dtype)
    model.save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)
