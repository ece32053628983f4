"""GRPO with TRL, on the reward that `policy.reward` declares (LongTraceRL by default).

LongTraceRL (arXiv 2605.31584, section on training): no KL term, clipping 0.2 / 0.28, per-token
loss, groups of 8. The reward is checked on gold demonstrations before training starts. Rollouts
are sampled where `runtime.rollouts` says; their text, reward parts and advantages go to `rollouts`.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from schemas.errors import UserError
from stages.llm.adapter import Adapter, merged, peft_config
from stages.llm.demonstration import demonstration
from stages.llm.library import Item, items
from stages.llm.prompts import count_tokens, load_template
from stages.llm.reward_model import load_reward_model, score, scoring_batch, sequence
from stages.llm.tokenizer import load_causal_lm, load_tokenizer, saved_dtype
from stages.llm.training import (
    Optimisation,
    check_memory,
    progress_callback,
    save,
    train,
    trainer_arguments,
    weights_dtype,
)
from stages.policy._engine import (
    check_engine,
    engine_arguments,
    engine_bytes,
    trainer_settings,
)
from stages.policy._rollouts import Recorder, recording_trainer
from stages.rewards.build import entities_by_question, make_sample
from stages.rewards.sample import RewardModel, Sample
from stages.rewards.score import check_reward
from stages.rewards.spec import RewardConfig, RewardModelTerm
from stages.runtime import processes
from stages.runtime.context import StageContext
from stages.runtime.progress import say
from stages.runtime.seeds import deterministic, device
from stages.runtime.variant import StageConfig

_DRY_RUN = 32


class Config(StageConfig):
    kind: Literal["grpo"]
    reward: RewardConfig
    group: int = Field(ge=2, description="Rollouts a question")
    optimisation: Optimisation
    max_completion_length: int = Field(ge=1)
    temperature: float = Field(gt=0)
    beta: float = Field(ge=0, description="Weight of the KL term")
    epsilon: float = Field(gt=0, description="Lower clip")
    epsilon_high: float = Field(gt=0, description="Upper clip")
    iterations: int = Field(ge=1, description="Optimiser passes over one batch of rollouts")
    adapter: Adapter
    loss_type: Literal["grpo", "bnpo", "dr_grpo", "dapo", "luspo", "cispo", "sapo", "vespo"]
    scale_rewards: Literal["group", "batch", "none"]
    hops: tuple[int, ...] | None = Field(description="Train on these hops only; null is all")
    view: Literal["long", "short"]
    prompt: str
    seed: int = Field(ge=0)

    @model_validator(mode="after")
    def _whole_groups(self) -> Config:
        if self.optimisation.batch % self.group:
            raise ValueError(
                f"optimisation.batch ({self.optimisation.batch}) must be a multiple of group "
                f"({self.group})"
            )
        return self


def run(config: Config, context: StageContext) -> dict[str, Any]:
    runtime = context.params.runtime
    deterministic(config.seed, runtime)
    check_engine(runtime.rollouts, device(runtime))
    folder = context.model("warmup")
    tokenizer = load_tokenizer(folder)
    chosen = {
        item.question["question_id"]: item
        for item in items(
            context, load_template(config.prompt), tokenizer, view=config.view, splits=["train"]
        )
        if config.hops is None or item.question["hops"] in config.hops
    }
    if len(chosen) < config.optimisation.batch // config.group:
        raise UserError(
            f"policy: {len(chosen)} training questions, but a step takes "
            f"{config.optimisation.batch // config.group}",
            fix="raise size.questions.train, or lower policy.optimisation.batch",
        )
    longest = max(count_tokens(tokenizer, item.prompt.text) for item in chosen.values())
    longest += config.max_completion_length
    check_memory(
        "GRPO", folder, runtime, config.optimisation, config.adapter,
        sequence=longest, logits=config.max_completion_length,
        sampled=config.optimisation.batch if runtime.rollouts.engine == "transformers" else 0,
        reference=config.beta > 0,
        beside={
            "engine": engine_bytes(folder, runtime.rollouts, device(runtime), longest),
            "reward model": _reward_model_bytes(config, context),
        },
    )  # fmt: skip
    entities = entities_by_question(context.read("rubrics"))
    reward_model = _reward_model(config, context, tokenizer, chosen)
    dry_run(config.reward, list(chosen.values())[:_DRY_RUN], entities, tokenizer, reward_model)
    recorder = Recorder(config.reward, chosen, entities, tokenizer, reward_model)
    trainer, history = fit(config, context, tokenizer, recorder, longest)
    save(merged(trainer.model), tokenizer, context.model_folder("policy"), saved_dtype(folder))
    context.plot("policy", history)
    writer = context.writer("rollouts")
    rows = processes.gathered(recorder.rows)
    for row in rows:
        writer.add(row)
    context.finish("rollouts", rows_in=len(rows))
    return summary(rows, config)


def dry_run(
    reward: RewardConfig,
    chosen: list[Item],
    entities: dict[str, tuple[str, ...]],
    tokenizer: Any,
    reward_model: RewardModel | None,
) -> None:
    """Score gold demonstrations as the tokenizer renders them: a perfect answer must earn it."""
    samples = []
    for item in chosen:
        text = demonstration(item.question, item.prompt, item.gold_chunks)
        decoded = tokenizer.decode(tokenizer.encode(text, add_special_tokens=False))
        samples.append(
            make_sample(item, decoded, "stop", entities.get(item.question["question_id"], ()))
        )
    check_reward(reward, samples, reward_model)
    say(f"reward checked on {len(samples)} gold demonstrations")


def fit(
    config: Config, context: StageContext, tokenizer: Any, recorder: Recorder, longest: int
) -> tuple[Any, list[dict[str, float]]]:
    """Train; returns the trainer and the learning curve. `longest`: tokens of prompt and answer."""
    from datasets import Dataset
    from trl import GRPOConfig

    progress = progress_callback("policy")
    runtime = context.params.runtime
    with engine_arguments(runtime.rollouts, device(runtime), config.seed):
        trainer = recording_trainer()(
            model=load_causal_lm(
                context.model("warmup"), device(runtime), weights_dtype(runtime, config.adapter)
            ),
            args=GRPOConfig(
                **trainer_arguments(context, config.optimisation, config.seed),
                num_generations=config.group,
                max_completion_length=config.max_completion_length,
                temperature=config.temperature,
                beta=config.beta,
                epsilon=config.epsilon,
                epsilon_high=config.epsilon_high,
                num_iterations=config.iterations,
                loss_type=config.loss_type,
                scale_rewards=config.scale_rewards,
                mask_truncated_completions=False,
                **trainer_settings(runtime.rollouts, device(runtime), longest),
            ),
            train_dataset=Dataset.from_list(
                [
                    {"prompt": item.prompt.text, "question_id": question_id}
                    for question_id, item in recorder.items.items()
                ]
            ),
            processing_class=tokenizer,
            callbacks=[progress],
            peft_config=peft_config(config.adapter, "CAUSAL_LM"),
            recorder=recorder,
        )
    train(trainer)
    names = {
        "reward": "reward",
        "reward_std": "reward_std",
        "entropy": "entropy",
        "frac_reward_zero_std": "groups_without_signal",
        "completions/mean_length": "tokens",
        # How far vLLM's log-probabilities of the sampled tokens are from the trainer's.
        "sampling/sampling_logp_difference/mean": "engine_difference",
    }
    curve = [
        {"step": row["step"], **{name: row[key] for key, name in names.items() if key in row}}
        for row in progress.history
    ]
    return trainer, curve


def _uses_reward_model(config: Config) -> bool:
    return any(isinstance(term, RewardModelTerm) for term in config.reward.terms.values())


def _reward_model_bytes(config: Config, context: StageContext) -> int:
    """What the reward model's weights take; it is loaded as it was saved."""
    if not _uses_reward_model(config):
        return 0
    files = context.model("reward_model").glob("*.safetensors")
    return sum(file.stat().st_size for file in files)


def _reward_model(
    config: Config, context: StageContext, tokenizer: Any, chosen: dict[str, Item]
) -> RewardModel | None:
    """The reward model as a term, loaded only if the reward uses it."""
    if not _uses_reward_model(config):
        return None
    runtime = context.params.runtime
    model = load_reward_model(context.model("reward_model"), device(runtime))

    def scores(samples: Any) -> list[float | None]:
        sequences = [_sequence(tokenizer, chosen, sample) for sample in samples]
        return score(model, tokenizer, sequences, scoring_batch(runtime))

    return scores


def _sequence(tokenizer: Any, chosen: dict[str, Item], sample: Sample) -> list[int]:
    return sequence(tokenizer, chosen[sample.question_id].prompt.text, sample.text)


def summary(rows: list[dict[str, Any]], config: Config) -> dict[str, Any]:
    """Means over the first and the last tenth of the steps, and how many groups gave no signal."""
    steps = sorted({row["step"] for row in rows})
    tenth = max(len(steps) // 10, 1)

    def mean(chosen: list[int]) -> float:
        rewards = [
            float(r["reward"]) for r in rows if r["step"] in chosen and r["reward"] is not None
        ]
        return round(sum(rewards) / max(len(rewards), 1), 4)

    groups: dict[tuple[int, str], set[float | None]] = {}
    for row in rows:
        groups.setdefault((row["step"], row["question_id"]), set()).add(row["reward"])
    flat = sum(len(values) == 1 for values in groups.values())
    return {
        "rollouts": len(rows),
        "groups": len(groups),
        "groups_without_signal": round(flat / max(len(groups), 1), 4),
        "rewards_failed": sum(row["reward"] is None for row in rows),
        "reward_first_tenth": mean(steps[:tenth]),
        "reward_last_tenth": mean(steps[-tenth:]),
    }
