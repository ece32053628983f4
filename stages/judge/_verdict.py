"""What a language-model judge says of a candidate: a value or a status, and what it rests on.

A failed request never becomes a number (methods.md section 6, defect 10): it fails the verdicts
that need it, with its status and, as the reason, what the layer says about it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from stages.judge._case import Answered
from stages.llm.answer import Answer


@dataclass(frozen=True)
class Part:
    """One question that was put to the judge: a criterion, a comparison, a check."""

    name: str
    value: float | None
    status: str
    reason: str = ""


@dataclass(frozen=True)
class Verdict:
    """The judgment of one candidate. `value` is None exactly when `status` is `failed:REASON`."""

    candidate_id: str
    value: float | None
    status: str
    parts: tuple[Part, ...] = ()
    agreement: float | None = None
    n_prompt_tokens: int = 0
    n_tokens: int = 0

    def columns(self) -> dict[str, Any]:
        """The columns of `judgments` that say what was found."""
        return {
            "value": self.value,
            "status": self.status,
            "agreement": self.agreement,
            "parts": [vars(part) for part in self.parts],
            "n_prompt_tokens": self.n_prompt_tokens,
            "n_tokens": self.n_tokens,
        }


def by_rule(candidate: Answered) -> Verdict:
    """An ill-formed answer scores 0 without being asked about."""
    return Verdict(candidate.candidate_id, 0.0, candidate.status)


def failed(answer: Answer) -> str:
    """The status of what rests on an answer that is no value."""
    return f"failed:{answer.status}"


def mean_of_parts(
    candidate_id: str, parts: Iterable[Part], weights: Iterable[float], answers: Iterable[Answer]
) -> Verdict:
    """The weighted mean of the parts, or the status of the first that failed."""
    found, used = tuple(parts), list(answers)
    values = [part.value for part in found if part.value is not None]
    lost = next((part.status for part in found if part.value is None), None)
    return Verdict(
        candidate_id,
        None if lost else fmean(values, list(weights)),
        lost or "ok",
        found,
        n_prompt_tokens=sum(answer.n_prompt_tokens for answer in used),
        n_tokens=sum(answer.n_tokens for answer in used),
    )
