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
