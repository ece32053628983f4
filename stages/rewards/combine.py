"""From the parts of a reward to its value: pure arithmetic on one rollout.

Guarantees: with parts in [0, 1] `positive_only` is in [0, 1], and is 0 for a wrong answer
however good its rubric score.
"""

from __future__ import annotations

from collections.abc import Mapping


def positive_only(outcome: float, rubric: float, eta: float) -> float:
    """0 if `outcome` is 0, else `(1 - eta) * outcome + eta * rubric`.

    LongTraceRL (arXiv 2605.31584): the rubric tells right answers apart and never pays for a
    wrong one. Raises ValueError for a negative outcome or an eta outside [0, 1].
    """
    if not 0.0 <= eta <= 1.0:
        raise ValueError(f"eta must be in [0, 1], not {eta}")
    if not outcome >= 0.0:
        raise ValueError(f"the outcome must not be negative, it is {outcome}")
    return 0.0 if outcome == 0.0 else (1.0 - eta) * outcome + eta * rubric


def weighted_sum(parts: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Sum of `weights[name] * parts[name]` over the names of `weights`.

    Raises ValueError if a weighted part is missing.
    """
    missing = sorted(weights.keys() - parts.keys())
    if missing:
        raise ValueError(f"no part for the weights {missing}; parts are {sorted(parts)}")
    return sum(weight * parts[name] for name, weight in weights.items())
