"""Predictions from earlier runs, where models had answers in store."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.history import predict, spent


def run(tokens: int, cost: float | None, **llm: int) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "stage": "judge", "variant": "panel", "profile": "tiny", "status": "ok", "seconds": 2.0,
        "tokens": {"prompt": tokens, "completion": 0}, "identity": "i",
    }  # fmt: skip
    return entry | ({"llm": llm} if llm else {}) | ({} if cost is None else {"cost": cost})


@pytest.mark.parametrize(
    ("runs", "tokens", "cost"),
    [
        ([run(100, 1.0)], 100, 1.0),
        ([run(100, 1.0, asked=10, kept=0)], 100, 1.0),
        ([run(100, 1.0, asked=10, kept=30)], 400, 4.0),
        ([run(100, 1.0, asked=10, kept=0), run(0, 0.0, asked=0, kept=10)], 100, 1.0),
        ([run(0, 0.0, asked=0, kept=10)], None, None),
        ([run(100, None, asked=10, kept=0)], 100, None),
        ([run(0, 0.0, asked=0, kept=0)], 0, 0.0),
    ],
)
def test_tokens_are_those_of_a_run_without_kept_answers(
    runs: list[dict[str, Any]], tokens: int | None, cost: float | None
) -> None:
    predicted = predict(runs, "judge", "panel", "tiny")
    assert (predicted.tokens, predicted.cost, predicted.seconds) == (tokens, cost, 2.0)


def test_what_was_spent_is_what_was_spent() -> None:
    assert spent([run(0, 0.0, asked=0, kept=10)], ("other", "i")).tokens == 0
