"""Counting what models read and wrote, and saying it on the way."""

from __future__ import annotations

import pytest

from stages.runtime import usage
from stages.runtime.progress import Meter


def test_counting_starts_anew_after_each_look() -> None:
    usage.take()
    assert usage.take() == {"tokens": {"prompt": 0, "completion": 0}}
    usage.add(prompt=3, completion=1)
    usage.add(prompt=4, completion=0)
    usage.add_calls({"asked": 2, "seconds": 0.25}, {"ok": 2}, 0.5)
    usage.add_calls({"asked": 1, "seconds": 0.5}, {"ok": 1, "timeout": 1}, 0.25)
    assert usage.take() == {
        "tokens": {"prompt": 7, "completion": 1},
        "llm": {"asked": 3, "seconds": 0.75, "statuses": {"ok": 3, "timeout": 1}},
        "cost": 0.75,
    }
    assert usage.take() == {"tokens": {"prompt": 0, "completion": 0}}


def test_a_cost_that_is_partly_unknown_is_unknown() -> None:
    usage.take()
    usage.add_calls({"asked": 1}, {}, 0.5)
    usage.add_calls({"asked": 1}, {}, None)
    assert "cost" not in usage.take()


def test_the_meter_says_rate_and_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    meter = Meter("judge", every=0.0)
    meter.keep(10)
    meter.started -= 10.0
    for _ in range(10):
        meter.answer(read=80, cached=0, written=20, total=40)
    line = capsys.readouterr().err.splitlines()[-1].strip()
    assert line == "judge: 20/40 answers (10 kept), 100 tokens/s, 20 s left"
    meter.answer(read=200, cached=500, written=0, total=40)
    line = capsys.readouterr().err.splitlines()[-1].strip()
    assert line.endswith(" tokens/s, 50% of prompts cached, 17 s left")
