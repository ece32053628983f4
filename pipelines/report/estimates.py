"""A number with its interval, and the words that go with it.

The words are mechanical: they say whether the 95 % interval excludes a reference value, nothing
about what that means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MINUS = "−"


@dataclass(frozen=True)
class Estimate:
    """A mean of `n` values with a 95 % interval; None where there is too little data."""

    value: float | None
    low: float | None
    high: float | None
    n: int

    @classmethod
    def of(cls, raw: Mapping[str, Any] | None) -> Estimate:
        """From a metrics file or a plot's row: keys value, low, high, n."""
        raw = raw or {}
        return cls(raw.get("value"), raw.get("low"), raw.get("high"), int(raw.get("n") or 0))

    @property
    def interval(self) -> str:
        if self.low is None or self.high is None:
            return "no interval"
        return f"[{number(self.low)}, {number(self.high)}]"

    def text(self, *, signed: bool = False) -> str:
        """`0.362 [0.318, 0.403]`."""
        return f"{number(self.value, signed=signed)} {self.interval}"

    def against(self, reference: float, what: str | None = None) -> str:
        """Whether the interval excludes the reference, in words."""
        shown = what or f"{reference:g}"
        if self.low is None or self.high is None:
            return f"too little data to compare with {shown}"
        if self.low > reference:
            return f"interval excludes {shown} (lies above)"
        if self.high < reference:
            return f"interval excludes {shown} (lies below)"
        return f"interval includes {shown}"


def number(value: Any, digits: int = 3, *, signed: bool = False) -> str:
    """A measured value, with a fixed number of decimals and a true minus sign."""
    if value is None:
        return "–"
    text = f"{float(value):+.{digits}f}" if signed else f"{float(value):.{digits}f}"
    return text.replace("-", MINUS)


def count(value: Any) -> str:
    """A count with thousands separators."""
    return "–" if value is None else f"{int(value):,}"


def seconds(value: float | None) -> str:
    """A duration as people say it."""
    if value is None:
        return "–"
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"
