"""A case with candidates, and answers to its requests from a function."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from stages.judge._case import Answered, Case, Criterion
from stages.llm.answer import Answer
from stages.llm.request import Request

MODEL = {"folder": "models/judge"}
WRITING: dict[str, Any] = {
    "model": MODEL, "reads": "content", "explanation_chars": 100, "seed": 3,
    "sampling": {"temperature": 0.0, "top_p": 1.0, "max_new_tokens": 50},
}  # fmt: skip


def case(*texts: str, rubric: Iterable[Criterion] = (), ill_formed: Iterable[int] = ()) -> Case:
    """Candidates a, b, c, ... with these texts; those whose number is in `ill_formed` are."""
    bad = set(ill_formed)
    return Case(
        "long/q", "Documents.\nQuestion: What?\n", "docs", "Paris", tuple(rubric),
        tuple(
            Answered(chr(97 + n), text, "ill_formed:truncated" if n in bad else "ok")
            for n, text in enumerate(texts)
        ),
    )  # fmt: skip


def prompt_of(request: Request) -> str:
    assert not isinstance(request.prompt, str)
    (message,) = request.prompt
    return message.content


def replies(
    requests: Iterable[Request], reply: Callable[[Request], dict[str, Any] | Answer]
) -> dict[str, Answer]:
    """An answer to each request: the JSON that `reply` gives, or the failure."""
    answers = {}
    for request in requests:
        found = reply(request)
        if isinstance(found, dict):
            found = Answer("ok", json.dumps(found), n_prompt_tokens=10, n_tokens=2)
        assert request.id not in answers
        answers[request.id] = found
    return answers
