"""Rewards inside GRPO, with every rollout and its reward parts kept.

TRL calls one reward function with all completions of a step; this one scores them question by
question (group scope), and remembers each with the advantage that the optimiser then uses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.errors import UserError
from schemas.ids import content_id
from stages.llm.library import Item
from stages.llm.prompts import count_tokens
from stages.llm.tokenizer import end_tokens
from stages.rewards.build import make_sample, row_status
from stages.rewards.sample import Reward, RewardModel, Sample
from stages.rewards.score import score_group
from stages.rewards.spec import RewardConfig
from stages.runtime import usage


@dataclass
class Recorder:
    """The reward function of one training run; `rows` are the rollouts so far."""

    config: RewardConfig
    items: Mapping[str, Item]
    entities: Mapping[str, Sequence[str]]
    tokenizer: Any
    reward_model: RewardModel | None = None
    ends: frozenset[int] = frozenset()
    """The tokens that end an answer; the trainer of the run fills them in."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    _open: list[dict[str, Any]] = field(default_factory=list)
    __name__: str = "longline_reward"

    def __call__(
        self,
        prompts: Sequence[str],
        completions: Sequence[str],
        completion_ids: Sequence[Sequence[int]],
        question_id: Sequence[str],
        trainer_state: Any,
        **_: Any,
    ) -> list[float | None]:
        """Rewards in the order of the completions; None masks a rollout whose reward failed."""
        samples = [
            self.sample(question, ids)
            for question, ids in zip(question_id, completion_ids, strict=True)
        ]
        groups: dict[str, list[int]] = defaultdict(list)
        for index, question in enumerate(question_id):
            groups[question].append(index)
        rewards: dict[int, Reward] = {}
        for indices in groups.values():
            scored = score_group(self.config, [samples[i] for i in indices], self.reward_model)
            rewards.update(zip(indices, scored, strict=True))
        step = int(trainer_state.global_step)
        places = {i: place for indices in groups.values() for place, i in enumerate(indices)}
        usage.add(
            prompt=sum(count_tokens(self.tokenizer, text) for text in prompts),
            completion=sum(len(ids) for ids in completion_ids),
        )
        self._open = [
            {
                "rollout_id": content_id(step, question_id[i], places[i]),
                "step": step,
                "question_id": question_id[i],
                "sample": places[i],
                "text": samples[i].text,
                "n_tokens": len(completion_ids[i]),
                "finish_reason": samples[i].finish_reason,
                "status": row_status(rewards[i].status),
                "parts": _map(rewards[i].parts),
                "raw": _map(rewards[i].raw),
                "reward": rewards[i].value,
            }
            for i in range(len(samples))
        ]
        return [rewards[i].value for i in range(len(samples))]

    def sample(self, question_id: str, completion_ids: Sequence[int]) -> Sample:
        """The sample of one completion. TRL's own text has lost the special tokens."""
        ids = list(completion_ids)
        length = next((at for at, token in enumerate(ids) if token in self.ends), len(ids))
        text = self.tokenizer.decode(ids[:length], skip_special_tokens=False)
        return make_sample(
            self.items[question_id],
            text,
            "stop" if length < len(ids) else "length",
            self.entities.get(question_id, ()),
        )

    def close_step(self, advantages: Sequence[float]) -> None:
        """Add the advantages of the step that was scored last; masked rollouts get none."""
        for row, advantage in zip(self._open, advantages, strict=True):
            masked = row["reward"] is None
            self.rows.append({**row, "advantage": None if masked else float(advantage)})
        self._open = []


def recording_trainer() -> type:
    """GRPOTrainer that hands its advantages to the recorder. Imported late: it loads torch."""
    from trl import GRPOTrainer

    class RecordingGRPOTrainer(GRPOTrainer):
        def __init__(self, *args: Any, recorder: Recorder, **kwargs: Any) -> None:
            super().__init__(*args, reward_funcs=[recorder], **kwargs)
            drawn = self.args.per_device_train_batch_size * self.args.steps_per_generation
            if drawn % self.num_generations:
                raise UserError(
                    f"each process draws {drawn} rollouts a step, but scores whole groups of "
                    f"{self.num_generations}",
                    fix="raise policy.optimisation.batch to a multiple of policy.group times the "
                    "processes of runtime.accelerate",
                )
            recorder.ends = end_tokens(
                self.processing_class, self.model.generation_config.eos_token_id
            )
            self.recorder = recorder

        def _tokenize_prompts(self, prompts: list[str]) -> Any:
            """As all other stages read them: the text holds its special tokens already."""
            tokens = self.processing_class(text=prompts, add_special_tokens=False)
            return tokens["input_ids"], None, {}

        def _generate_and_score_completions(self, inputs: Any) -> Any:
            output = super()._generate_and_score_completions(inputs)
            if self.model.training:
                self.recorder.close_step(output["advantages"].tolist())
            return output

    return RecordingGRPOTrainer


def _map(values: Mapping[str, float | None]) -> list[tuple[str, float]]:
    """The terms that have a value, as the rows of a MAP column."""
    return [(name, value) for name, value in sorted(values.items()) if value is not None]
