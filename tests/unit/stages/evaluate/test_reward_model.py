"""A score that the reward model did not give makes a failed row, never a lost pair or a pick."""

from __future__ import annotations

from typing import Any

import pytest

from stages.evaluate._reward_model import best_of_n_rows, pair_rows, picked

SLICES = {"q": {"split": "test", "hops": 2}}
DRAWN = {"q": [{"candidate_id": name, "sample": at} for at, name in enumerate("abc")]}
OUTCOMES = {"a": 0.0, "b": 1.0, "c": 0.5}


def seen(rows: list[dict[str, Any]]) -> list[tuple[str, str, float | None, str]]:
    assert all(row["split"] == "test" and row["question_id"] == "q" for row in rows)
    return [(row["system"], row["measure"], row["value"], row["status"]) for row in rows]


@pytest.mark.parametrize(
    ("chosen", "rejected", "value", "status"),
    [
        (2.0, 1.0, 1.0, "ok"),
        (1.0, 2.0, 0.0, "ok"),
        (1.0, 1.0, 0.0, "ok"),
        (None, 1.0, None, "failed:nan"),
        (1.0, None, None, "failed:nan"),
    ],
)
def test_a_pair(
    chosen: float | None, rejected: float | None, value: float | None, status: str
) -> None:
    pair = {"question_id": "q", "chosen_id": "a", "rejected_id": "b"}
    rows = pair_rows([pair, pair | {"question_id": "other"}], {"a": chosen, "b": rejected}, SLICES)
    assert seen(rows) == [("reward_model", "pair_correct", value, status)]


def test_the_three_ways_to_pick() -> None:
    rows = best_of_n_rows(DRAWN, OUTCOMES, {"a": 0.1, "b": 0.2, "c": 0.3}, [2, 3, 4], SLICES)
    assert seen(rows) == [
        ("best_of_n", "outcome_at_2", 1.0, "ok"),
        ("random_pick", "outcome_at_2", 0.5, "ok"),
        ("oracle", "outcome_at_2", 1.0, "ok"),
        ("best_of_n", "outcome_at_3", 0.5, "ok"),
        ("random_pick", "outcome_at_3", 0.5, "ok"),
        ("oracle", "outcome_at_3", 1.0, "ok"),
    ]


def test_a_pick_without_all_scores_fails_and_the_others_stand() -> None:
    rows = best_of_n_rows(DRAWN, OUTCOMES, {"a": 0.1, "b": 0.2, "c": None}, [2, 3], SLICES)
    assert seen(rows)[0] == ("best_of_n", "outcome_at_2", 1.0, "ok")
    assert seen(rows)[3:] == [
        ("best_of_n", "outcome_at_3", None, "failed:nan"),
        ("random_pick", "outcome_at_3", 0.5, "ok"),
        ("oracle", "outcome_at_3", 1.0, "ok"),
    ]


def test_the_first_of_equals_is_picked() -> None:
    assert picked(["b", "a", "c"], {"a": 1.0, "b": 1.0, "c": 0.0}) == "b"
