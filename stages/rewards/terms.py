"""The value of one term: at sample scope, by a reward model, and at group scope.

Guarantees: None means that a term failed, and is never replaced by a number; an ill-formed
response has 0 on every content term (the rule of LongTraceRL and LongRLVR).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

from schemas.errors import UserError
from stages.metrics.answers import answer_score, normalise
from stages.rewards.citation import citation_score
from stages.rewards.entity import entity_recall
from stages.rewards.group import divide_by_group_max
from stages.rewards.response import Response
from stages.rewards.sample import RewardModel, Sample
from stages.rewards.spec import (
    CitationTerm,
    EntityRecallTerm,
    FormatTerm,
    OutcomeTerm,
    RewardModelTerm,
    Term,
)

_LOG = logging.getLogger(__name__)


def has_reference(term: Term, sample: Sample) -> bool:
    """Whether `sample` carries what `term` compares with."""
    match term:
        case OutcomeTerm():
            return bool(sample.golds) and all(normalise(gold) for gold in sample.golds)
        case EntityRecallTerm():
            return bool(sample.entities)
        case CitationTerm():
            return bool(sample.gold_citations)
    return True


def sample_value(
    term: OutcomeTerm | EntityRecallTerm | CitationTerm | FormatTerm,
    sample: Sample,
    response: Response,
) -> float | None:
    """The term's value in [0, 1] before the group step; None if the reference is missing.

    Raises UserError for an unknown answer metric.
    """
    if not has_reference(term, sample):
        return None
    if not response.ok:
        return 0.0
    match term:
        case OutcomeTerm():
            return answer_score(sample.metric, response.answer, sample.golds)
        case EntityRecallTerm():
            return entity_recall(sample.entities, response.content, term.boundary)
        case CitationTerm():
            return citation_score(
                response.citations, sample.gold_citations, term.beta, term.duplicates
            ).f
        case FormatTerm():
            return 1.0


def model_values(reward_model: RewardModel, samples: Sequence[Sample]) -> list[float | None]:
    """Scores of a reward model, one a sample; None for each that is not a finite number.

    An exception of the model fails all of them and is logged; a UserError passes. Raises
    ValueError if the number of scores is not that of the samples.
    """
    if not samples:
        return []
    try:
        scores = list(reward_model(samples))
    except UserError:
        raise
    except Exception:
        _LOG.exception("the reward model failed on %d samples", len(samples))
        return [None] * len(samples)
    if len(scores) != len(samples):
        raise ValueError(f"the reward model gave {len(scores)} scores for {len(samples)} samples")
    return [_finite(score) for score in scores]


def squashed(
    term: RewardModelTerm, scores: Sequence[float | None], responses: Sequence[Response]
) -> list[float | None]:
    """Reward-model scores of a group as parts.

    An ill-formed response gets 0. Without squashing honest scores may be negative, and it then
    gets the lowest of its group, so that breaking the format never pays.
    """
    values = [
        None if score is None else _sigmoid(score) if term.squash == "sigmoid" else score
        for score in scores
    ]
    floor = min((value for value in values if value is not None), default=0.0)
    return [
        value if response.ok else min(0.0, floor)
        for value, response in zip(values, responses, strict=True)
    ]


def over_group_max(
    values: Sequence[float | None], eligible: Sequence[bool] | None
) -> list[float | None]:
    """`divide_by_group_max` over the values that are known; None stays None."""
    known = [i for i, value in enumerate(values) if value is not None]
    mask = None if eligible is None else [eligible[i] for i in known]
    scaled = divide_by_group_max([v for v in values if v is not None], mask)
    out: list[float | None] = [None] * len(values)
    for i, value in zip(known, scaled, strict=True):
        out[i] = value
    return out


def _finite(score: object) -> float | None:
    try:
        value = float(score)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


def _sigmoid(x: float) -> float:
    if x >= 0.0:
        return 1.0 / (1.0 + math.exp(-x))
    return math.exp(x) / (1.0 + math.exp(x))
