"""The terminal that tables are printed on."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

PIPED_WIDTH = 200
"""Columns where the output goes to no terminal, so that words are not broken at 80."""


def terminal() -> Console:
    """Standard output, as wide as it is."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)
