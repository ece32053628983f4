"""How many requests are under way at once: more while the server keeps up, fewer when it does not.

Additive increase, multiplicative decrease (Chiu and Jain 1989): a success adds 1/limit, so a whole
round adds one; a sign of overload halves the limit, once for all requests that were sent before the
cut. Until the first such sign each success adds one, which doubles the limit every round.
"""

from __future__ import annotations

import asyncio
import time


class Limiter:
    """Slots for requests. Belongs to one event loop."""

    def __init__(self, most: int, start: int = 8) -> None:
        self.most = most
        self.limit = float(min(start, most))
        self.active = 0
        self._cut_at: float | None = None
        self._changed = asyncio.Condition()

    async def acquire(self) -> None:
        """Wait for a free slot and take it."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.active < int(self.limit))
            self.active += 1

    async def release(self) -> None:
        async with self._changed:
            self.active -= 1
            self._changed.notify_all()

    def succeeded(self) -> None:
        """The server kept up with a request."""
        step = 1.0 if self._cut_at is None else 1.0 / self.limit
        self.limit = min(float(self.most), self.limit + step)

    def overloaded(self, sent: float) -> None:
        """The server did not keep up with a request that was sent at this time (monotonic)."""
        if self._cut_at is None or sent > self._cut_at:
            self.limit = max(1.0, self.limit / 2)
            self._cut_at = time.monotonic()
