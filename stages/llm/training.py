"""What the three trainers (SFT, reward model, GRPO) share: arguments, progress, saving."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from stages.runtime.context import StageContext
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
    return {
        "output_dir": str(context.scratch / "trainer"),
        "max_steps": optimisation.steps,
        "per_device_train_batch_size": optimisation.batch,
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

    trainer.remove_callback(PrinterCallback)
    trainer.train()


def save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Weights as safetensors, with configuration and tokenizer, and nothing of the trainer."""
    model.save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)
