"""What a reward model is worth: held-out pairs, and best-of-N against a random pick and the oracle.

Best-of-N takes, of a question's first N candidates, the one that the reward model scores highest;
a random pick is worth their mean; the oracle takes the best there is. A pair or a pick that needs a
score which the model did not give is `failed:nan` and counts in no mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stages.llm.reward_model import in_order

Scores = Mapping[str, float | None]
"""candidate id -> score; None where the model gave no finite one"""


def pair_rows(
    preferences: Sequence[Mapping[str, Any]],
    scores: Scores,
    slices: Mapping[str, Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """1 for each held-out pair that the model puts in the right order (strictly), else 0."""
    return [
        _row(
            slices,
            row["question_id"],
            "reward_model",
            "pair_correct",
            in_order(scores[row["chosen_id"]], scores[row["rejected_id"]]),
        )
        for row in preferences
        if row["question_id"] in slices
    ]


def best_of_n_rows(
    candidates: Mapping[str, Sequence[Mapping[str, Any]]],
    values: Mapping[str, float],
    scores: Scores,
    sizes: Sequence[int],
    slices: Mapping[str, Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Outcome of the three ways to pick, for each question and N. `values` are the outcomes."""
    rows = []
    for question_id, drawn in candidates.items():
        ordered = sorted(drawn, key=lambda row: row["sample"])
        for size in sizes:
            first = [row["candidate_id"] for row in ordered[:size]]
            if len(first) < size or any(candidate not in values for candidate in first):
                continue
            outcomes = [values[candidate] for candidate in first]
            best = picked(first, scores)
            rows += [
                _row(slices, question_id, system, f"outcome_at_{size}", value)
                for system, value in (
                    ("best_of_n", None if best is None else values[best]),
                    ("random_pick", sum(outcomes) / size),
                    ("oracle", max(outcomes)),
                )
            ]
    return rows


def picked(candidates: Sequence[str], scores: Scores) -> str | None:
    """The first of those with the highest score; None unless all have one."""
    best: tuple[float, str] | None = None
    for candidate in candidates:
        value = scores[candidate]
        if value is None:
            return None
        if best is None or value > best[0]:
            best = value, candidate
    return best and best[1]


def _row(
    slices: Mapping[str, Mapping[str, Any]],
    question_id: str,
    system: str,
    measure: str,
    value: float | None,
) -> dict[str, Any]:
    return {
        **slices[question_id],
        "question_id": question_id,
        "system": system,
        "measure": measure,
        "sample": 0,
        "value": None if value is None else float(value),
        "status": "failed:nan" if value is None else "ok",
        "text": None,
    }
