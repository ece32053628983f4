"""Progress on screen: a line that counts, on a terminal or in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

from stages.runtime.processes import is_first

Item = TypeVar("Item")


def track(items: Iterable[Item], label: str, total: int | None = None) -> Iterator[Item]:
    """Yield the items; say how many of `total` are done, at most once in two seconds."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    started = last = time.monotonic()
    for count, item in enumerate(items, start=1):
        yield item
        now = time.monotonic()
        if now - last >= 2:
            last = now
            rate = count / (now - started)
            left = "" if not total else f", {max(total - count, 0) / rate:.0f} s left"
            say(f"{label}: {count}{'' if total is None else f'/{total}'}{left}")


def say(line: str) -> None:
    """One line on standard error, at once; where several train together, only the first speaks."""
    if is_first():
        print(f"  {line}", file=sys.stderr, flush=True)


class Meter:
    """Answers of a model on screen: done, kept, tokens a second, cache hits, time left."""

    def __init__(self, label: str, every: float = 2.0) -> None:
        self.label = label
        self.every = every
        self.done = self.kept = self.asked = self.read = self.cached = self.written = 0
        self.started = self.last = time.monotonic()

    def keep(self, number: int) -> None:
        """Answers that were in the store."""
        self.done += number
        self.kept += number

    def answer(self, read: int, cached: int, written: int, total: int) -> None:
        """One answer that a model gave: tokens that it read, had in its cache of these, wrote."""
        self.done += 1
        self.asked += 1
        self.read += read
        self.cached += cached
        self.written += written
        now = time.monotonic()
        if now - self.last >= self.every:
            self.last = now
            say(self.line(total, now))

    def line(self, total: int, now: float) -> str:
        seconds = max(now - self.started, 1e-9)
        left = max(total - self.done, 0) * seconds / max(self.asked, 1)
        hits = f"{self.cached / self.read:.0%} of prompts cached, " if self.cached else ""
        return (
            f"{self.label}: {self.done}/{total} answers ({self.kept} kept), "
            f"{(self.read + self.written) / seconds:.0f} tokens/s, {hits}{left:.0f} s left"
        )
