"""A scalar reward model trained with the Bradley-Terry loss by TRL's RewardTrainer.

Starts from the warm-up model's body with a new head. `max_length` has no default: TRL filters out
longer pairs without a word (its own default is 1024 tokens), so here they are counted, and a share
above `max_dropped` is an error. Held-out accuracy is measured on the pairs of the other splits;
the test split is never trained on. A pair with a score that is not finite counts in no accuracy; if
no pair has two, training has diverged and the stage fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from schemas.errors import UserError
from stages.llm.adapter import Adapter, merged, peft_config
from stages.llm.library import Item, items
from stages.llm.prompts import load_template
from stages.llm.reward_model import (
    in_order,
    load_reward_model,
    score,
    scoring_batch,
    sequence,
)
from stages.llm.tokenizer import load_tokenizer, saved_dtype
from stages.llm.training import (
    Optimisation,
    check_memory,
    progress_callback,
    save,
    train,
    trainer_arguments,
    weights_dtype,
)
from stages.metrics.bootstrap import mean_interval
from stages.runtime.context import StageContext
from stages.runtime.progress import say
from stages.runtime.seeds import deterministic, device
from stages.runtime.variant import StageConfig


class Config(StageConfig):
    kind: Literal["bradley_terry"]
    max_length: int = Field(ge=1, description="Tokens of prompt and response; longer pairs drop")
    max_dropped: float = Field(ge=0, le=1, description="Share of pairs that may drop")
    centre: float = Field(ge=0, description="Weight of the squared mean reward; 0 is none")
    adapter: Adapter
    optimisation: Optimisation
    view: Literal["long", "short"]
    prompt: str
    seed: int = Field(ge=0)


def run(config: Config, context: StageContext) -> dict[str, Any]:
    deterministic(config.seed, context.params.runtime)
    folder = context.model("warmup")
    tokenizer = load_tokenizer(folder)
    pairs = tokenised_pairs(config, context, tokenizer)
    kept = [
        p for p in pairs if max(len(p["chosen_ids"]), len(p["rejected_ids"])) <= config.max_length
    ]
    dropped = len(pairs) - len(kept)
    if dropped > config.max_dropped * len(pairs):
        longest = max(max(len(p["chosen_ids"]), len(p["rejected_ids"])) for p in pairs)
        raise UserError(
            f"reward_model: {dropped} of {len(pairs)} pairs are longer than max_length="
            f"{config.max_length} tokens (the longest has {longest}); max_dropped allows a share "
            f"of {config.max_dropped}",
            fix=f"dvc exp run -S reward_model.max_length={longest}, or raise "
            "reward_model.max_dropped",
        )
    trained = [pair for pair in kept if pair["split"] == "train"]
    say(f"reward model: {len(trained)} pairs to train on, {dropped} dropped for length")
    sides = ("chosen_ids", "rejected_ids")
    longest = max((len(pair[side]) for pair in trained for side in sides), default=1)
    check_memory(
        "training the reward model", folder, context.params.runtime, config.optimisation,
        config.adapter, sequence=longest, sequences_each=2,
    )  # fmt: skip
    model, history = fit(config, context, tokenizer, trained)
    save(model, tokenizer, context.model_folder("reward_model"), saved_dtype(folder))
    context.plot("reward_model", history)
    return {
        "pairs_trained": len(trained),
        "pairs_too_long": dropped,
        **accuracy(model, tokenizer, kept, scoring_batch(context.params.runtime), config.seed),
    }


def accuracy(
    model: Any, tokenizer: Any, pairs: list[dict[str, Any]], batch: int, seed: int
) -> dict[str, float | None]:
    """Share of pairs in the right order, on the pairs trained on and on held-out ones.

    The held-out pairs are those of the validation split; the test split is left to `evaluate`.
    Raises UserError if no pair has two finite scores, as after training that diverged.
    """
    found: dict[str, float | None] = {}
    scored, lost = 0, 0
    for split in ("train", "validation"):
        measured = [pair for pair in pairs if pair["split"] == split]
        chosen = score(model, tokenizer, [p["chosen_ids"] for p in measured], batch)
        rejected = score(model, tokenizer, [p["rejected_ids"] for p in measured], batch)
        orders = [in_order(a, b) for a, b in zip(chosen, rejected, strict=True)]
        wins = [float(order) for order in orders if order is not None]
        scored, lost = scored + len(wins), lost + len(orders) - len(wins)
        interval = mean_interval(wins, seed=seed)
        found[f"accuracy_{split}"] = interval.mean
        if split == "validation":
            found["accuracy_validation_low"] = interval.low
            found["accuracy_validation_high"] = interval.high
    if lost and not scored:
        raise UserError(
            f"reward_model: the trained model gives none of the {lost} pairs two finite scores: "
            "the training diverged",
            fix="lower it: dvc exp run -S reward_model.optimisation.learning_rate=...",
        )
    return {**found, "pairs_not_scored": lost}


def tokenised_pairs(config: Config, context: StageContext, tokenizer: Any) -> list[dict[str, Any]]:
    """All preference pairs as token sequences, with their split."""
    candidates = {
        row["candidate_id"]: row
        for row in context.read("candidates", columns=["candidate_id", "text", "prompt_hash"])
    }
    preferences: dict[str, list[Mapping[str, Any]]] = {}
    for row in context.read("preferences"):
        preferences.setdefault(row["question_id"], []).append(row)
    pairs = []
    for item in items(
        context, load_template(config.prompt), tokenizer, view=config.view,
        splits=["train", "validation", "test"],
    ):  # fmt: skip
        for pair in preferences.get(item.question["question_id"], ()):
            chosen, rejected = candidates[pair["chosen_id"]], candidates[pair["rejected_id"]]
            check_prompt(config, item, (chosen, rejected))
            pairs.append(
                {
                    "split": pair["split"],
                    "chosen_ids": sequence(tokenizer, item.prompt.text, chosen["text"]),
                    "rejected_ids": sequence(tokenizer, item.prompt.text, rejected["text"]),
                }
            )
    return pairs


def check_prompt(config: Config, item: Item, pair: Sequence[Mapping[str, Any]]) -> None:
    """Citations are positions in a prompt: under another one they would mean other documents."""
    if {row["prompt_hash"] for row in pair} != {item.prompt.hash}:
        raise UserError(
            "the reward model renders other prompts than the candidates answered "
            f"(reward_model: view {config.view}, prompt {config.prompt})",
            fix="leave reward_model.view and reward_model.prompt as candidates has them",
        )


def fit(
    config: Config, context: StageContext, tokenizer: Any, pairs: list[dict[str, Any]]
) -> tuple[Any, list[dict[str, float]]]:
    """Train on the pairs; returns the model in evaluation mode and the learning curve."""
    from datasets import Dataset
    from trl import RewardConfig, RewardTrainer

    runtime = context.params.runtime
    model = load_reward_model(
        context.model("warmup"), device(runtime), pad_token_id=tokenizer.pad_token_id,
        dtype=weights_dtype(runtime, config.adapter),
    )  # fmt: skip
    model.config.pad_token_id = tokenizer.pad_token_id
    progress = progress_callback("reward model")
    trainer = RewardTrainer(
        model=model,
        args=RewardConfig(
            **trainer_arguments(context, config.optimisation, config.seed),
            max_length=config.max_length,
            center_rewards_coefficient=config.centre or None,
        ),
        train_dataset=Dataset.from_list(
            [{"chosen_ids": p["chosen_ids"], "rejected_ids": p["rejected_ids"]} for p in pairs]
        ),
        processing_class=tokenizer,
        callbacks=[progress],
        peft_config=peft_config(config.adapter, "SEQ_CLS"),
    )
    train(trainer)
    curve = [
        {key: row[key] for key in ("step", "loss", "accuracy", "margin") if key in row}
        for row in progress.history
    ]
    return merged(trainer.model).eval(), curve
