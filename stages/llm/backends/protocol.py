"""What the layer needs of a back end: answers to requests, one by one as they arrive.

A back end yields every request's id exactly once, with an answer or a typed failure; it raises only
for what ends the whole stage (no server, no memory, a model that is not there), and then with a
`UserError` that says what to do. It neither stores nor repeats answers across runs: the layer does.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Protocol

from stages.llm.answer import Answer
from stages.llm.request import Request, Sampling


class Backend(Protocol):
    """An open model. Close it when the stage is done: it may hold a process or a GPU."""

    @property
    def window(self) -> int | None:
        """Tokens of prompt and answer together that fit; None where it is not known."""

    def encode(self, requests: Sequence[Request]) -> list[array[int]] | None:
        """The tokens of each prompt with its continuation; None where no tokenizer is at hand.

        They are kept for the call of `generate` or `score` that follows.
        """

    def generate(
        self, requests: Sequence[Request], sampling: Sampling
    ) -> Iterator[tuple[str, Answer]]:
        """Yield (request id, answer) on arrival. Honours each request's seed and schema."""

    def score(self, requests: Sequence[Request]) -> Iterator[tuple[str, Answer]]:
        """Yield (request id, answer) with the log-probabilities of each continuation's tokens.

        The tokens are those of the continuation encoded by itself, put after the prompt's.
        """

    def close(self) -> None:
        """Give back processes and memory."""
