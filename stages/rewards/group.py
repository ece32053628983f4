"""Group scope: what depends on all rollouts of one question.

Guarantees: order in is order out, and permuting a group permutes the result; a rollout without
a reward (None) neither moves the others' baseline nor gets an advantage of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

Scale = Literal["group", "none"]


def divide_by_group_max(
    values: Sequence[float], eligible: Sequence[bool] | None = None
) -> list[float]:
    """Each value over the group's maximum, in [0, 1] (LongTraceRL, arXiv 2605.31584).

    The paper takes the maximum over all rollouts, so a wrong one that names many entities lowers
    the right ones. `eligible` restricts it, for example to the correct ones; a value above it is
    then cut to 1. A maximum of 0, or nobody eligible, leaves the values as they are. Raises
    ValueError for values that are negative or not finite, or a mask of another length.
    """
    if eligible is not None and len(eligible) != len(values):
        raise ValueError(f"{len(values)} values but a mask of {len(eligible)}")
    if any(not math.isfinite(value) or value < 0.0 for value in values):
        raise ValueError(f"values must be finite and not negative: {list(values)}")
    mask = [True] * len(values) if eligible is None else eligible
    top = max((v for v, allowed in zip(values, mask, strict=True) if allowed), default=0.0)
    if top == 0.0:
        return list(values)
    return [min(value / top, 1.0) for value in values]


def group_advantages(
    rewards: Sequence[float | None], scale: Scale = "group", epsilon: float = 1e-4
) -> list[float]:
    """GRPO's advantages of one group, by the formula of TRL's GRPOTrainer.

    `(r - mean) / (std + epsilon)` with the sample standard deviation (n - 1), or `r - mean` for
    `scale="none"` (arXiv 2402.03300, section 4.1; arXiv 2503.20783 without the division). None
    is a rollout without a reward: left out of mean and deviation, advantage 0. Raises ValueError
    for a reward that is not finite or an unknown scale.
    """
    if scale not in ("group", "none"):
        raise ValueError(f"scale must be 'group' or 'none', not {scale!r}")
    known = [reward for reward in rewards if reward is not None]
    if not all(math.isfinite(reward) for reward in known):
        raise ValueError(f"rewards must be finite or None: {list(rewards)}")
    if len(known) < 2:
        return [0.0] * len(rewards)
    mean = math.fsum(known) / len(known)
    divisor = 1.0
    if scale == "group":
        squares = math.fsum((reward - mean) ** 2 for reward in known)
        divisor = math.sqrt(squares / (len(known) - 1)) + epsilon
    return [0.0 if reward is None else (reward - mean) / divisor for reward in rewards]
