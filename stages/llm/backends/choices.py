"""Scores that one reading of the prompt gives together: of words that are one token each.

Yes or no, A or B: the model's distribution after the prompt holds them all. The prompt's tokens are
counted for the first of them, since it was read once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from stages.llm.answer import Answer, scored
from stages.llm.backends.encoding import Encoder
from stages.llm.request import Request

_MOST = 128
"""Tokens whose log-probabilities vLLM gives at one place."""


def is_choice(request: Request, encoder: Encoder) -> bool:
    """Whether what is scored is one token."""
    return len(encoder.continuation(request)) == 1


def by_prompt(requests: Sequence[Request], encoder: Encoder) -> list[list[Request]]:
    """The requests in parts: neighbours with the same prompt whose continuation is one token.

    Any other request is a part of its own.
    """
    parts: list[list[Request]] = []
    open_part = False
    for request in requests:
        choice = is_choice(request, encoder)
        if (
            choice
            and open_part
            and len(parts[-1]) < _MOST
            and parts[-1][0].prompt == request.prompt
        ):
            parts[-1].append(request)
        else:
            parts.append([request])
        open_part = choice
    return parts


def chosen(
    part: Sequence[Request], values: Sequence[Any], seconds: float, **counts: int
) -> Iterator[tuple[str, Answer]]:
    """An answer for each request of a part; the tokens count for its first."""
    for request, value in zip(part, values, strict=True):
        yield request.id, counting(scored([value], seconds=seconds), **counts)
        counts = {}


def counting(answer: Answer, n_prompt_tokens: int = 0, n_cached_tokens: int | None = 0) -> Answer:
    """The answer with the tokens of one more reading."""
    cached = (answer.n_cached_tokens, n_cached_tokens)
    return replace(
        answer,
        n_prompt_tokens=answer.n_prompt_tokens + n_prompt_tokens,
        n_cached_tokens=None if cached == (None, None) else sum(n or 0 for n in cached),
    )
