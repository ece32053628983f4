"""Secrets stay in the environment: what a stage prints is shown without them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|AUTH)$", re.IGNORECASE)
SHORTEST = 6
"""Shorter values are words that lines may hold by chance."""
MASK = "[secret]"


def secret_values(environment: Mapping[str, str]) -> list[str]:
    """The values of variables whose name ends like a secret's, longest first."""
    values = {
        value.strip()
        for name, value in environment.items()
        if NAME.search(name) and len(value.strip()) >= SHORTEST
    }
    return sorted(values, key=len, reverse=True)


def masked(environment: Mapping[str, str]) -> Callable[[str], str]:
    """A function that puts a mask in place of every secret of the environment in a line."""
    values = secret_values(environment)

    def mask(line: str) -> str:
        for value in values:
            line = line.replace(value, MASK)
        return line

    return mask
