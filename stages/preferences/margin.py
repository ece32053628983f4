"""One pair a question: the best candidate against the worst, by the weighted panel score.

LongReward (arXiv 2410.21252) pairs the maximum and the minimum of all candidates without any
filter, so that equal scores make a pair; here a pair needs a margin. Ties and margins below
`min_margin` are dropped and counted. A candidate with a failed judgment has no score and takes no
part; it is counted too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, field_validator

from schemas.errors import UserError
from schemas.ids import content_id
from stages.runtime.context import StageContext
from stages.runtime.variant import StageConfig

Scores = Mapping[str, Mapping[str, float | None]]
"""candidate id -> dimension -> value"""


class Config(StageConfig):
    kind: Literal["margin"]
    weights: dict[str, float] = Field(min_length=1, description="Weight of each dimension")
    min_margin: float = Field(gt=0, le=1)

    @field_validator("weights")
    @classmethod
    def _some_weight(cls, weights: dict[str, float]) -> dict[str, float]:
        if min(weights.values()) < 0 or sum(weights.values()) <= 0:
            raise ValueError("the weights must not be negative and one must be positive")
        return weights


def run(config: Config, context: StageContext) -> dict[str, Any]:
    total = sum(config.weights.values())
    weights = {dimension: weight / total for dimension, weight in config.weights.items()}
    scores: dict[str, dict[str, dict[str, float | None]]] = defaultdict(lambda: defaultdict(dict))
    splits: dict[str, str] = {}
    dimensions: set[str] = set()
    for row in context.read("judgments"):
        scores[row["question_id"]][row["candidate_id"]][row["dimension"]] = row["value"]
        splits[row["question_id"]] = row["split"]
        dimensions.add(row["dimension"])
    unknown = set(weights) - dimensions
    if unknown:
        raise UserError(
            f"preferences.weights names dimension '{sorted(unknown)[0]}', which no judge scored",
            allowed=dimensions,
            fix="name dimensions of judge.judges, or add a judge there",
        )
    writer = context.writer("preferences")
    pairs: Counter[str] = Counter()
    unscored = 0
    margins = []
    for question_id in sorted(scores):
        candidates = scores[question_id]
        known = {
            candidate: sum(weight * float(values[d] or 0.0) for d, weight in weights.items())
            for candidate, values in candidates.items()
            if all(values.get(dimension) is not None for dimension in weights)
        }
        unscored += len(candidates) - len(known)
        pair = best_against_worst(known, config.min_margin)
        if isinstance(pair, str):
            writer.drop(pair)
            continue
        chosen, rejected = pair
        pairs[splits[question_id]] += 1
        margins.append(known[chosen] - known[rejected])
        writer.add(
            {
                "pair_id": content_id(chosen, rejected),
                "question_id": question_id,
                "split": splits[question_id],
                "chosen_id": chosen,
                "rejected_id": rejected,
                "chosen_score": known[chosen],
                "rejected_score": known[rejected],
                "margin": known[chosen] - known[rejected],
                "agreement": agreement(candidates[chosen], candidates[rejected], list(weights)),
            }
        )
    context.finish("preferences", rows_in=len(scores))
    return {
        "pairs": dict(sorted(pairs.items())),
        "candidates_unscored": unscored,
        "mean_margin": round(sum(margins) / max(len(margins), 1), 4),
    }


def best_against_worst(scores: Mapping[str, float], min_margin: float) -> tuple[str, str] | str:
    """(best, worst) candidate, or why there is no pair. Equal scores go by candidate id."""
    if len(scores) < 2:
        return "too_few_candidates"
    ordered = sorted(scores, key=lambda candidate: (scores[candidate], candidate))
    margin = scores[ordered[-1]] - scores[ordered[0]]
    if margin <= 0:
        return "tie"
    return "margin_too_small" if margin < min_margin else (ordered[-1], ordered[0])


def agreement(
    better: Mapping[str, float | None], worse: Mapping[str, float | None], dimensions: Sequence[str]
) -> float:
    """Share of the dimensions that put the better candidate first or level."""
    level = sum(float(better[d] or 0.0) >= float(worse[d] or 0.0) for d in dimensions)
    return level / len(dimensions)
