"""Scoring the rollouts of one question, and the dry run before training.

Order: sample scope (each term on each rollout), group scope (division by the group's maximum),
combination. Guarantees: a failed term gives no value (None, `failed:TERM`), never a number, and
does not touch the other rollouts; a term of weight 0 may fail without failing the reward; the
result does not depend on the order of the rollouts.

    [reward] = score_group(config, [sample], reward_model=None)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from schemas.errors import UserError
from stages.rewards.citation import longrlvr_reward
from stages.rewards.combine import positive_only, weighted_sum
from stages.rewards.response import Response
from stages.rewards.sample import Reward, RewardModel, Sample, sample_response
from stages.rewards.spec import (
    EntityRecallTerm,
    LongRLVR,
    OutcomeTerm,
    PositiveOnly,
    RewardConfig,
    RewardModelTerm,
    WeightedSum,
)
from stages.rewards.terms import has_reference, model_values, over_group_max, sample_value, squashed

__all__ = ["Reward", "RewardModel", "Sample", "check_reward", "score_group"]

Columns = dict[str, list[float | None]]


def score_group(
    config: RewardConfig, samples: Sequence[Sample], reward_model: RewardModel | None = None
) -> list[Reward]:
    """Rewards of the rollouts of one question, in their order.

    `reward_model` scores samples in one call; it sees well-formed ones only. Raises ValueError
    for samples of several questions, or if a term needs a reward model and none is given.
    """
    questions = {sample.question_id for sample in samples}
    if len(questions) > 1:
        raise ValueError(f"a group has one question, not {sorted(questions)[:5]}")
    needed = [n for n, term in config.terms.items() if isinstance(term, RewardModelTerm)]
    if needed and reward_model is None:
        raise ValueError(f"the terms {needed} need a reward model and none is given")
    responses = [sample_response(sample) for sample in samples]
    raw = _raw(config, samples, responses, reward_model)
    parts = _parts(config, raw, responses)
    return [
        _reward(config, _row(parts, i), _row(raw, i), response.status)
        for i, response in enumerate(responses)
    ]


def check_reward(
    config: RewardConfig, samples: Sequence[Sample], reward_model: RewardModel | None = None
) -> list[dict[str, float | None]]:
    """Dry run on gold demonstrations, rendered and decoded as rollouts will be.

    Returns the raw parts of each sample; a reward-model part is None if no model is given.
    Raises UserError if every demonstration is ill-formed, one lacks a reference, one does not
    score outcome 1, or a term is 0 on all of them: a reward that a perfect answer cannot earn
    trains nothing. Raises ValueError without samples.
    """
    if not samples:
        raise ValueError("the dry run needs at least one demonstration")
    responses = [sample_response(sample) for sample in samples]
    if not any(response.ok for response in responses):
        statuses = dict(Counter(response.status for response in responses))
        raise UserError(
            f"every gold demonstration is ill-formed: {statuses}; the first ends in "
            f"{samples[0].text[-80:]!r}",
            fix="render demonstrations with the chat template and tokenizer of the policy; the "
            "completion must hold one </think> (none where the prompt's template has `thinking: "
            "false`), then `Answer: VALUE`, and finish with `stop`",
        )
    raw = _raw(config, samples, responses, reward_model)
    for name, term in config.terms.items():
        asked = not isinstance(term, RewardModelTerm) or reward_model is not None
        for sample, response, value in zip(samples, responses, raw[name], strict=True):
            where = f"term {name!r} on the demonstration of question {sample.question_id!r}"
            if not has_reference(term, sample):
                raise UserError(
                    f"{where}: the question has nothing to compare with",
                    fix="filter such questions, or remove the term from the reward",
                )
            if asked and response.ok and value is None:
                raise UserError(
                    f"{where}: the reward model gave no finite score",
                    fix="check the reward model on this sample, or remove the term",
                )
            if isinstance(term, OutcomeTerm) and value != 1.0:
                raise UserError(
                    f"{where}: outcome {value} instead of 1 by {sample.metric} "
                    f"({response.status}; answer {response.answer!r}, gold {sample.golds})",
                    fix="correct the question's gold answers or metric, or the demonstration",
                )
        if not isinstance(term, RewardModelTerm) and not any(raw[name]):
            raise UserError(
                f"term {name!r} is 0 on all {len(samples)} gold demonstrations",
                fix="let the demonstrations show what the term pays for, or remove the term",
            )
    return [_row(raw, i) for i in range(len(samples))]


def _raw(
    config: RewardConfig,
    samples: Sequence[Sample],
    responses: Sequence[Response],
    reward_model: RewardModel | None,
) -> Columns:
    scores: list[float | None] | None = None
    raw: Columns = {}
    for name, term in config.terms.items():
        if isinstance(term, RewardModelTerm):
            if scores is None:
                scores = _model_scores(samples, responses, reward_model)
            raw[name] = scores
        else:
            raw[name] = [sample_value(term, s, r) for s, r in zip(samples, responses, strict=True)]
    return raw


def _model_scores(
    samples: Sequence[Sample], responses: Sequence[Response], reward_model: RewardModel | None
) -> list[float | None]:
    scores: list[float | None] = [None] * len(samples)
    asked = [i for i, response in enumerate(responses) if response.ok]
    if reward_model is not None:
        for i, score in zip(
            asked, model_values(reward_model, [samples[i] for i in asked]), strict=True
        ):
            scores[i] = score
    return scores


def _parts(config: RewardConfig, raw: Columns, responses: Sequence[Response]) -> Columns:
    parts = dict(raw)
    for name, term in config.terms.items():
        if isinstance(term, RewardModelTerm):
            parts[name] = squashed(term, raw[name], responses)
    for name, term in config.terms.items():
        if isinstance(term, EntityRecallTerm) and term.group == "max":
            eligible = None
            if term.max_over == "correct" and config.outcome_name is not None:
                eligible = [(value or 0.0) > 0.0 for value in parts[config.outcome_name]]
            parts[name] = over_group_max(raw[name], eligible)
    return parts


def _row(columns: Columns, i: int) -> dict[str, float | None]:
    return {name: column[i] for name, column in columns.items()}


def _reward(
    config: RewardConfig,
    parts: dict[str, float | None],
    raw: dict[str, float | None],
    status: str,
) -> Reward:
    failed = [name for name in config.required if parts[name] is None]
    if failed:
        return Reward(None, parts, raw, f"failed:{failed[0]}")
    known = {name: value for name, value in parts.items() if value is not None}
    return Reward(_combined(config, known), parts, raw, status)


def _combined(config: RewardConfig, parts: Mapping[str, float]) -> float:
    combine = config.combine
    match combine:
        case PositiveOnly():
            return positive_only(parts[combine.outcome], parts[combine.rubric], combine.eta)
        case LongRLVR():
            return longrlvr_reward(parts[combine.outcome], parts[combine.citation], combine.eta)
        case WeightedSum():
            return weighted_sum(parts, {name: combine.weights[name] for name in config.required})
