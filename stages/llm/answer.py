"""What came back for a request: a value, or a typed failure beside it. Never a number for both.

`ok` is the only status of a complete answer. `length` keeps the text up to the limit, because
whoever samples answers wants to see it. All other statuses are failures without a value; `detail`
says in one line what happened.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Status = Literal[
    "ok",
    "length",  # the limit of new tokens ended the answer
    "empty",  # the model ended at once
    "refusal",  # the endpoint says that the model declined, or a filter held the answer back
    "broken_json",  # asked for JSON and got something else
    "schema_mismatch",  # JSON, but not of the schema
    "nan",  # a log-probability that is no number
    "too_long",  # the prompt does not fit the model's window
    "timeout",
    "connection",
    "http",  # an HTTP status that a repetition did not mend
    "malformed",  # a response that does not keep the endpoint's own protocol
]

NO_NUMBER = "a log-probability is no finite number"
"""The detail of `nan`, whichever back end found it."""


@dataclass(frozen=True)
class Answer:
    """A model's answer to one request, or why there is none.

    `text` is what was generated, None for scores and failures. `logprobs` are those of the
    continuation's tokens in natural logarithm, None for generated answers. `n_cached_tokens` of the
    `n_prompt_tokens` were not computed anew; None where the back end does not say. `seconds` is
    the time from the request to its answer, `attempts` how often it was sent.
    """

    status: Status
    text: str | None = None
    logprobs: tuple[float, ...] | None = None
    detail: str = ""
    n_prompt_tokens: int = 0
    n_cached_tokens: int | None = None
    n_tokens: int = 0
    seconds: float = 0.0
    attempts: int = 1


SAMPLED: frozenset[Status] = frozenset({"ok", "length", "empty"})
"""What a sampled answer may be: saying nothing is an answer, and a wrong one."""


def sampled(answer: Answer) -> tuple[str, str]:
    """Text and finish reason (`stop` or `length`) of an answer whose status is in `SAMPLED`."""
    return answer.text or "", "length" if answer.status == "length" else "stop"


def scored(logprobs: Sequence[Any], **counts: Any) -> Answer:
    """The answer to a score: `nan` where one of the log-probabilities is no finite number."""
    if all(isinstance(value, int | float) and math.isfinite(value) for value in logprobs):
        return Answer("ok", logprobs=tuple(float(value) for value in logprobs), **counts)
    return Answer("nan", detail=NO_NUMBER, **counts)
