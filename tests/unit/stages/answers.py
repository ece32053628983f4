"""A back end that answers from a function, for tests of what stages ask and make of it."""

from __future__ import annotations

import dataclasses
import json
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stages.llm.answer import Answer
from stages.llm.request import Request, Sampling
from stages.runtime.params import Params
from tests.unit.stages import harness
from tests.unit.stages.corpus.conftest import PARAMS

Reply = Callable[[Request], Any]
"""JSON for a request, the log-probability of its continuation, or an `Answer`."""


def asked(request: Request) -> str:
    """The text of a prompt of one turn."""
    assert not isinstance(request.prompt, str)
    return request.prompt[0].content


def words(request: Request) -> list[str]:
    """Those of its turns."""
    return [word for turn in request.prompt if not isinstance(turn, str)
            for word in turn.content.split()]  # fmt: skip


@dataclass
class TableBackend:
    """Answers by `reply`, in reverse order; `requests` is all that it was asked."""

    reply: Reply
    window: int | None = None
    requests: list[Request] = field(default_factory=list)
    opened: int = 0
    closed: int = 0

    def encode(self, requests: Sequence[Request]) -> list[array[int]]:
        return [array("I", map(len, words(request))) for request in requests]

    def generate(
        self, requests: Sequence[Request], sampling: Sampling
    ) -> Iterator[tuple[str, Answer]]:
        yield from self.score(requests)

    def score(self, requests: Sequence[Request]) -> Iterator[tuple[str, Answer]]:
        self.requests += requests
        for request in reversed(requests):
            yield request.id, self._answer(request)

    def close(self) -> None:
        self.closed += 1

    def _answer(self, request: Request) -> Answer:
        found = self.reply(request)
        read = len(words(request))
        if isinstance(found, Answer):
            return found
        if request.continuation is not None:
            return Answer("ok", logprobs=(found,), n_prompt_tokens=read)
        return Answer("ok", json.dumps(found), n_prompt_tokens=read, n_tokens=3)


def use(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    reply: Reply,
    *,
    model: str = "models/judge",
    window: int | None = None,
    **settings: Any,
) -> TableBackend:
    """Put the back end behind the layer in `folder`; `settings` are those of `runtime.llm`."""
    backend = TableBackend(reply, window)

    def opener(*_: Any) -> TableBackend:
        backend.opened += 1
        return backend

    (folder / model).mkdir(parents=True, exist_ok=True)
    (folder / model / "config.json").write_text("{}")
    monkeypatch.setattr("stages.llm.layer.open_backend", opener)
    monkeypatch.setattr(harness, "PARAMS", with_settings(**settings))
    return backend


def with_settings(**settings: Any) -> Params:
    """The parameters of the tests with other settings of `runtime.llm`."""
    runtime = PARAMS.runtime
    llm = runtime.llm.model_copy(update=settings)
    return dataclasses.replace(PARAMS, runtime=runtime.model_copy(update={"llm": llm}))
