"""What the models of a stage read and wrote, for the run log. One stage is one process."""

from __future__ import annotations

_tokens: dict[str, int] = {}


def add(prompt: int, completion: int) -> None:
    """Count tokens that a model read and wrote in answering."""
    _tokens["prompt"] = _tokens.get("prompt", 0) + prompt
    _tokens["completion"] = _tokens.get("completion", 0) + completion


def take() -> dict[str, int]:
    """The tokens since the last call, and start again from zero."""
    taken = {"prompt": 0, "completion": 0, **_tokens}
    _tokens.clear()
    return taken
