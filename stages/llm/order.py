"""The order of requests: those that share text come one after another, so that it is read once.

Groups keep the order in which they first appear; within a group equal prompts, and then prompts
with the longest common beginning, are neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from stages.llm.request import Request


def prompt_text(request: Request) -> str:
    """The prompt as one text, for comparing beginnings."""
    if isinstance(request.prompt, str):
        return request.prompt
    return "".join(f"\0{message.role}\0{message.content}" for message in request.prompt)


def ordered(requests: Iterable[Request]) -> list[Request]:
    """The requests, group by group. A request without a group is one with its equals."""
    groups: dict[tuple[str, str], list[Request]] = {}
    for request in requests:
        name = ("group", request.group) if request.group else ("prompt", prompt_text(request))
        groups.setdefault(name, []).append(request)
    return [request for group in groups.values() for request in sorted(group, key=prompt_text)]


def new_shares(prompts: Sequence[Sequence[Any]]) -> Iterator[float]:
    """For each prompt, the share of it that the prompt before it does not begin with.

    Prompt tokens times this share, added up, are the tokens that have to be computed when a
    perfect cache holds the prompt before. The share is one of tokens, or of characters where
    prompts are texts.
    """
    before: Sequence[Any] = ()
    for prompt in prompts:
        yield 1.0 - _common(before, prompt) / len(prompt) if len(prompt) else 0.0
        before = prompt


def _common(left: Sequence[Any], right: Sequence[Any]) -> int:
    """Length of the common beginning, found by halving: slices compare at memory speed."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def windows(
    requests: Iterable[Request], most: int = 20_000, characters: int = 400_000_000
) -> Iterator[list[Request]]:
    """The requests in parts that fit into memory."""
    part: list[Request] = []
    size = 0
    for request in requests:
        part.append(request)
        size += len(prompt_text(request)) + len(request.continuation or "")
        if len(part) >= most or size >= characters:
            yield part
            part, size = [], 0
    if part:
        yield part
