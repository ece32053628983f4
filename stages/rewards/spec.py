"""The configuration of a reward: named terms and one combinator.

    terms: {outcome: {kind: outcome}, rubric: {kind: entity_recall}}
    combine: {kind: positive_only, outcome: outcome, rubric: rubric}

Guarantees: an unknown key is an error; the combinator names existing terms only, and every term
is named (weight 0 keeps a term for the log alone); an option that could have no effect is an
error, never ignored.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from stages.rewards.citation import MAX_BETA, Duplicates
from stages.rewards.entity import Boundary


class _Config(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class OutcomeTerm(_Config):
    """The answer against the gold answers, by the metric that comes with the question."""

    kind: Literal["outcome"]


class EntityRecallTerm(_Config):
    """Share of the gold entities named in the content, then divided by the group's maximum.

    `max_over` says whose maximum: all rollouts (the paper) or those whose outcome is above 0.
    """

    kind: Literal["entity_recall"]
    boundary: Boundary = "word"
    group: Literal["max", "none"] = "max"
    max_over: Literal["all", "correct"] = "all"


class CitationTerm(_Config):
    """F-beta of the cited documents against the gold ones."""

    kind: Literal["citation"]
    beta: float = Field(default=2.0, gt=0, le=MAX_BETA)
    duplicates: Duplicates = "penalise"


class RewardModelTerm(_Config):
    """The score of a reward model; `sigmoid` brings it into (0, 1)."""

    kind: Literal["reward_model"]
    squash: Literal["sigmoid", "none"] = "sigmoid"


class FormatTerm(_Config):
    """1 for a well-formed response, else 0."""

    kind: Literal["format"]


Term = Annotated[
    OutcomeTerm | EntityRecallTerm | CitationTerm | RewardModelTerm | FormatTerm,
    Field(discriminator="kind"),
]


class PositiveOnly(_Config):
    """LongTraceRL: the rubric counts where the outcome is above 0."""

    kind: Literal["positive_only"]
    outcome: str
    rubric: str
    eta: float = Field(default=0.3, ge=0, le=1)


class LongRLVR(_Config):
    """LongRLVR: the answer reward plus a context reward of the citations, in [0, 2]."""

    kind: Literal["longrlvr"]
    outcome: str
    citation: str
    eta: float = Field(default=0.1, ge=0, le=1)


class WeightedSum(_Config):
    """A weight for each term; 0 computes and records a term without paying for it."""

    kind: Literal["weighted_sum"]
    weights: dict[str, float]


Combine = Annotated[PositiveOnly | LongRLVR | WeightedSum, Field(discriminator="kind")]


class RewardConfig(_Config):
    """Terms by name, and how they become one number."""

    terms: dict[str, Term] = Field(min_length=1)
    combine: Combine

    @property
    def named(self) -> tuple[str, ...]:
        """The terms that the combinator names."""
        match self.combine:
            case PositiveOnly():
                return (self.combine.outcome, self.combine.rubric)
            case LongRLVR():
                return (self.combine.outcome, self.combine.citation)
            case WeightedSum():
                return tuple(self.combine.weights)

    @property
    def required(self) -> tuple[str, ...]:
        """The named terms without which there is no value: all but those of weight 0."""
        if isinstance(self.combine, WeightedSum):
            return tuple(name for name, weight in self.combine.weights.items() if weight != 0.0)
        return self.named

    @property
    def outcome_name(self) -> str | None:
        """The term that says which rollouts are correct, if it is clear which one that is."""
        if not isinstance(self.combine, WeightedSum):
            return self.combine.outcome
        outcomes = [name for name, term in self.terms.items() if isinstance(term, OutcomeTerm)]
        return outcomes[0] if len(outcomes) == 1 else None

    @model_validator(mode="after")
    def _names_agree(self) -> RewardConfig:
        allowed = ", ".join(sorted(self.terms))
        unknown = sorted(set(self.named) - self.terms.keys())
        if unknown:
            raise ValueError(f"combine names unknown terms {unknown}; allowed: {allowed}")
        unused = sorted(self.terms.keys() - set(self.named))
        if unused:
            raise ValueError(
                f"terms {unused} are not used by combine, which names: "
                f"{', '.join(sorted(self.named))}; remove them, or give them weight 0 to log them"
            )
        if len(set(self.named)) < len(self.named):
            raise ValueError(f"combine names one term twice: {self.named}; allowed: {allowed}")
        if not self.required:
            raise ValueError("every weight is 0, so that the reward would always be 0")
        return self

    @model_validator(mode="after")
    def _options_have_effect(self) -> RewardConfig:
        for name, term in self.terms.items():
            if isinstance(term, EntityRecallTerm) and term.max_over == "correct":
                if term.group == "none":
                    raise ValueError(f"term {name!r}: max_over has no effect with group: none")
                if self.outcome_name in (None, name):
                    raise ValueError(
                        f"term {name!r}: max_over: correct needs exactly one outcome term"
                    )
        if not isinstance(self.combine, WeightedSum):
            for name in self.named:
                term = self.terms[name]
                if isinstance(term, RewardModelTerm) and term.squash == "none":
                    raise ValueError(
                        f"term {name!r}: {self.combine.kind} needs values in [0, 1], "
                        "so squash: sigmoid"
                    )
        return self
