"""F-beta of cited evidence, and the reward LongRLVR builds on it (arXiv 2603.02146, section 2.2).

    P = |unique cited and gold| / |cited|      R = |unique cited and gold| / |gold|
    F = (1 + beta^2) P R / (beta^2 P + R)      r = a + eta F + (1 - eta) a F

Guarantees: P, R and F are in [0, 1]; citing nothing scores 0; under `duplicates="penalise"` (the
paper) a repeated id never raises P, under `"ignore"` (LongTraceRL's reading of it) it never
changes P.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

Duplicates = Literal["penalise", "ignore"]
MAX_BETA = 1e6  # beyond it F is R to the last digit, and its square would overflow


@dataclass(frozen=True)
class CitationScore:
    """Precision, recall and F-beta, each in [0, 1]."""

    precision: float
    recall: float
    f: float


def citation_score(
    cited: Sequence[str | int],
    gold: Collection[str | int],
    beta: float = 2.0,
    duplicates: Duplicates = "penalise",
) -> CitationScore:
    """Score the list of `cited` ids against the set of `gold` ids of the same type.

    Raises ValueError without gold ids, a beta outside (0, MAX_BETA], or an unknown rule.
    """
    if not gold:
        raise ValueError("a citation score is undefined without gold ids")
    if not 0.0 < beta <= MAX_BETA:
        raise ValueError(f"beta must be positive and at most {MAX_BETA:g}, not {beta}")
    if duplicates not in ("penalise", "ignore"):
        raise ValueError(f"duplicates must be 'penalise' or 'ignore', not {duplicates!r}")
    unique, wanted = set(cited), set(gold)
    hits = len(unique & wanted)
    if hits == 0:
        return CitationScore(0.0, 0.0, 0.0)
    precision = hits / (len(cited) if duplicates == "penalise" else len(unique))
    recall = hits / len(wanted)
    square = beta * beta
    f = (1.0 + square) * precision * recall / (square * precision + recall)
    return CitationScore(precision, recall, f)


def longrlvr_reward(answer: float, f: float, eta: float = 0.1) -> float:
    """Answer reward plus context reward, in [0, 2], of `answer` and `f` in [0, 1].

    Raises ValueError for an argument outside [0, 1].
    """
    for name, value in (("answer", answer), ("f", f), ("eta", eta)):
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"{name} must be in [0, 1], not {value}")
    return answer + eta * f + (1.0 - eta) * answer * f
