"""What a reward model is worth: held-out pairs, and best-of-N against a random pick and the oracle.

Best-of-N takes, of a question's first N candidates, the one that the reward model scores highest;
a random pick is worth their mean; the oracle takes the best there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Scores = Mapping[str, float]
"""candidate id -> score"""


def pair_rows(
    preferences: Sequence[Mapping[str, Any]],
    scores: Scores,
    slices: Mapping[str, Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """1 for each held-out pair that the model puts in the right order (strictly), else 0."""
    return [
        {
            **slices[row["question_id"]],
            "question_id": row["question_id"],
            "system": "reward_model",
            "measure": "pair_correct",
            "sample": 0,
            "value": float(scores[row["chosen_id"]] > scores[row["rejected_id"]]),
            "status": "ok",
            "text": None,
        }
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
            best = max(first, key=lambda candidate: scores[candidate])
            for system, value in (
                ("best_of_n", values[best]),
                ("random_pick", sum(outcomes) / size),
                ("oracle", max(outcomes)),
            ):
                rows.append(
                    {
                        **slices[question_id],
                        "question_id": question_id,
                        "system": system,
                        "measure": f"outcome_at_{size}",
                        "sample": 0,
                        "value": value,
                        "status": "ok",
                        "text": None,
                    }
                )
    return rows
