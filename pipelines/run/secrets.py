"""Secrets stay in the environment: what a stage prints is shown without them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|AUTH)$", re.IGNORECASE)
SHORTEST = 6
"""Shorter values are words that lines may hold by chance."""
MASK = "[secret]"


def secret_values(environment: Mapping[str, str]) -> list[str]:
    """The values of variables whose name ends like a secret's, longest first."""
    return _by_line(value for name, value in environment.items() if NAME.search(name))


def _by_line(secrets: Iterable[str]) -> list[str]:
    """Longest first, and line by line, since that is how output is read."""
    lines = {line.strip() for value in secrets for line in value.splitlines()}
    return sorted((line for line in lines if len(line) >= SHORTEST), key=len, reverse=True)


def masked(environment: Mapping[str, str], more: Iterable[str] = ()) -> Callable[[str], str]:
    """A function that puts a mask in place of every secret of the environment in a line, and of
    `more` secrets, whose variables may have any name."""
    values = _by_line([*secret_values(environment), *more])

    def mask(line: str) -> str:
        for value in values:
            line = line.replace(value, MASK)
        return line

    return mask
