"""What DVC would do with a stage, and why: fresh, cached, or run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Will(StrEnum):
    """What happens to a stage."""

    FRESH = "fresh"
    """Nothing changed; the outputs in the workspace are right."""
    CACHED = "cached"
    """A past run had the same inputs; its result is restored."""
    RUN = "run"
    """The command runs."""


@dataclass(frozen=True)
class Outlook:
    """The outlook of one stage.

    `certain` is false where it rests on the output of a stage that will run: should that come out
    the same as a known one, DVC finds this stage fresh or cached after all.
    """

    stage: str
    will: Will
    reasons: tuple[str, ...]
    identity: str
    """Of everything the result follows from: sources, code, parameters and command, here and
    upstream. Known before anything runs; equal identities give equal results."""
    own: str
    """Of the same without upstream: its command, parameters and sources."""
    certain: bool = True


def identity(
    command: str,
    params: Mapping[str, Any],
    sources: Mapping[str, str | None],
    upstream: Mapping[str, str],
) -> str:
    """16 hex digits of SHA-256 over what a stage's result follows from.

    `sources` maps a path that no stage makes to its content's hash, `upstream` a path that a stage
    makes to that stage's identity.
    """
    text = json.dumps([command, params, sources, upstream], sort_keys=True, allow_nan=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def changes(old: Any, new: Any, path: str = "") -> list[str]:
    """Where two parameter values differ, as `key: old -> new`, in the order of the new one.

    >>> changes({"a": {"b": 1}, "c": 2}, {"a": {"b": 3}, "c": 2}, "x")
    ['x.a.b: 1 -> 3']
    """
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        keys = [*new, *(key for key in old if key not in new)]
        absent = object()
        found = []
        for key in keys:
            before, after = old.get(key, absent), new.get(key, absent)
            name = f"{path}.{key}" if path else str(key)
            if before is absent:
                found.append(f"{name} is new ({_short(after)})")
            elif after is absent:
                found.append(f"{name} is gone")
            else:
                found += changes(before, after, name)
        return found
    return [] if old == new else [f"{path}: {_short(old)} -> {_short(new)}"]


def _short(value: Any) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 40 else text[:37] + "..."
