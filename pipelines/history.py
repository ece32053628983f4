"""What earlier runs took, as predictions: seconds, tokens and cost of a stage.

The run log (stages/runtime/runlog.py) is read, never written.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

RECENT = 5


@dataclass(frozen=True)
class Prediction:
    """What a stage is expected to take. None is unknown, never zero."""

    seconds: float | None = None
    tokens: int | None = None
    cost: float | None = None
    basis: str = "no earlier run"


def predict(
    runs: Sequence[Mapping[str, Any]], stage: str, variant: str, profile: str, identity: str = ""
) -> Prediction:
    """The median over the most recent runs that succeeded: of the same inputs, if there are any;
    else of the same variant and profile.

    A change of size within a profile is not seen; the basis says what was counted. Tokens and cost
    are those of a run that finds no kept answer of a model.
    """
    past = [run for run in runs if run.get("stage") == stage and run.get("status") == "ok"]
    same = [run for run in past if identity and run.get("identity") == identity]
    alike = [run for run in past if (run.get("variant"), run.get("profile")) == (variant, profile)]
    chosen = (same or alike)[-RECENT:]
    if not chosen:
        return Prediction()
    kind = "the same inputs" if same else f"{variant}, profile {profile}"
    tokens = _median([_times(_tokens(run), _asking(run)) for run in chosen])
    return Prediction(
        seconds=_median([_number(run.get("seconds")) for run in chosen]),
        tokens=None if tokens is None else round(tokens),
        cost=_median([_times(_number(run.get("cost")), _asking(run)) for run in chosen]),
        basis=f"{len(chosen)} run{'s' if len(chosen) > 1 else ''} of {kind}",
    )


def spent(runs: Sequence[Mapping[str, Any]], identities: Collection[str]) -> Prediction:
    """What the run that made a result took, which any of these identities has; unknown if it is
    not in the log."""
    same = [run for run in runs if run.get("identity") in identities and run.get("status") == "ok"]
    if not same:
        return Prediction()
    tokens = _tokens(same[-1])
    return Prediction(
        seconds=_number(same[-1].get("seconds")),
        tokens=None if tokens is None else round(tokens),
        cost=_number(same[-1].get("cost")),
        basis="its own run",
    )


def _tokens(run: Mapping[str, Any]) -> float | None:
    tokens = run.get("tokens")
    if not isinstance(tokens, Mapping):
        return None
    return sum(value for value in tokens.values() if isinstance(value, int))


def _asking(run: Mapping[str, Any]) -> float | None:
    """How many times as much a run would have taken that kept no answers; None where it kept all.

    >>> _asking({"llm": {"asked": 25, "kept": 75}}), _asking({})
    (4.0, 1.0)
    """
    counted = run.get("llm")
    if not isinstance(counted, Mapping):
        return 1.0
    asked = _number(counted.get("asked")) or 0.0
    whole = asked + (_number(counted.get("kept")) or 0.0)
    return whole / asked if asked else None if whole else 1.0


def _times(value: float | None, factor: float | None) -> float | None:
    return None if value is None or factor is None else value * factor


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
