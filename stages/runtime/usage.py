"""What the models of a stage read and wrote, for the run log. One stage is one process."""

from __future__ import annotations

from collections import Counter
from typing import Any

_tokens: Counter[str] = Counter()
_calls: Counter[str] = Counter()
_statuses: Counter[str] = Counter()
_costs: list[float | None] = []


def add(prompt: int, completion: int) -> None:
    """Count tokens that a model read and wrote in answering."""
    _tokens.update(prompt=prompt, completion=completion)


def add_calls(
    numbers: dict[str, int | float], statuses: dict[str, int], cost: float | None
) -> None:
    """Count requests to the LLM layer: how many, from where, how they ended, and their cost."""
    _calls.update(numbers)
    _statuses.update(statuses)
    _costs.append(cost)


def take() -> dict[str, Any]:
    """What was counted since the last call, as fields of the run log; counting starts anew.

    `cost` is there only where every price is known.
    """
    taken: dict[str, Any] = {"tokens": {"prompt": 0, "completion": 0, **_tokens}}
    if _calls:
        numbers = {name: round(value, 2) for name, value in sorted(_calls.items())}
        taken["llm"] = {**numbers, "statuses": dict(sorted(_statuses.items()))}
    known = [cost for cost in _costs if cost is not None]
    if known and len(known) == len(_costs):
        taken["cost"] = round(sum(known), 6)
    for counted in (_tokens, _calls, _statuses, _costs):
        counted.clear()
    return taken
