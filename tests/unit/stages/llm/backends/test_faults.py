"""Faults of a server, and how many requests it gets at once."""

from __future__ import annotations

import asyncio
import time
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.llm.backends.concurrency import Limiter
from stages.llm.backends.faults import back_off, masked, retry_after


@pytest.mark.parametrize(
    ("header", "seconds"),
    [(None, None), ("", None), ("3", 3.0), ("0.5", 0.5), ("-1", 0.0), ("soon", None),
     ("nan", None), ("inf", None)],
)  # fmt: skip
def test_retry_after(header: str | None, seconds: float | None) -> None:
    assert retry_after(header) == seconds


def test_retry_after_a_date() -> None:
    wait = retry_after(formatdate(time.time() + 30, usegmt=True))
    assert wait is not None and 28 <= wait <= 30


@given(st.integers(1, 2000))
def test_back_off_is_bounded(attempt: int) -> None:
    assert 0 <= back_off(attempt) <= 30


def test_the_key_is_in_no_message() -> None:
    assert masked("bad key\n  secret-1 and secret-1", "secret-1") == "bad key *** and ***"
    assert len(masked("x" * 1000, "")) == 300


def test_the_limit_grows_with_success_and_halves_once_a_round() -> None:
    async def steps() -> list[float]:
        limiter = Limiter(64)
        for _ in range(10):
            limiter.succeeded()
        found = [limiter.limit]
        sent = time.monotonic()
        for _ in range(5):  # all of them were under way when it was cut first
            limiter.overloaded(sent)
        found.append(limiter.limit)
        for _ in range(9):
            limiter.succeeded()
        found.append(limiter.limit)
        for _ in range(20):
            await asyncio.sleep(0.001)
            limiter.overloaded(time.monotonic())
        found.append(limiter.limit)
        for _ in range(100_000):
            limiter.succeeded()
        return [*found, limiter.limit]

    grown, halved, slower, least, most = asyncio.run(steps())
    assert (grown, halved, least, most) == (18.0, 9.0, 1.0, 64.0)
    assert 9.5 < slower <= 10.0  # one more in a round of nine


def test_never_more_than_the_limit_at_once() -> None:
    async def run() -> int:
        limiter, most = Limiter(3), 0

        async def work() -> None:
            nonlocal most
            await limiter.acquire()
            most = max(most, limiter.active)
            await asyncio.sleep(0.001)
            await limiter.release()

        await asyncio.gather(*(work() for _ in range(30)))
        return most

    assert asyncio.run(run()) == 3
