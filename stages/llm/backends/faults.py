"""What went wrong with a request to a server: the status for it, and whether to send it again."""

from __future__ import annotations

import email.utils
import math
import random
import re
import time
from dataclasses import dataclass
from typing import Any

from schemas.errors import UserError
from stages.llm.answer import Status

_WINDOW = re.compile(r"context.length|maximum context|max_model_len|context_length_exceeded", re.I)
_BUSY = {408, 429, 502, 503, 504}
_AGAIN = _BUSY | {409, 425, 500}
_SHOWN = 300


class Malformed(Exception):
    """A response that does not keep the protocol."""


@dataclass(frozen=True)
class Fault:
    """A failed attempt. `wait` is what the server asked for, in seconds."""

    status: Status
    detail: str
    again: bool
    busy: bool = False
    wait: float | None = None


def classify(error: Exception, where: str, key_variable: str, secret: str) -> Fault:
    """The fault behind an exception of the client. `UserError` for what every request will meet."""
    import openai

    told = masked(str(error), secret)
    if isinstance(error, TimeoutError | openai.APITimeoutError):
        return Fault("timeout", "no answer in time", again=True, busy=True)
    if isinstance(error, openai.APIStatusError):
        return _of_status(error, told, where, key_variable)
    if isinstance(error, openai.APIConnectionError):
        cause = masked(repr(error.__cause__), secret) if error.__cause__ else told
        return Fault("connection", cause, again=True)
    if isinstance(error, Malformed | ValueError | openai.APIResponseValidationError):
        return Fault("malformed", told, again=True)
    raise error


def _of_status(error: Any, told: str, where: str, key_variable: str) -> Fault:
    code = error.status_code
    if code in (401, 403):
        raise UserError(
            f"the server at {where} refuses the key (HTTP {code}): {told}",
            fix=f"export {key_variable}=... (the variable that runtime.llm.server.key_variable "
            "names)",
        ) from None
    if code == 404:
        raise UserError(
            f"the server at {where} has no such model or endpoint (HTTP 404): {told}",
            fix="correct runtime.llm.server.model, endpoint or url",
        ) from None
    if code in (400, 413, 422) and _WINDOW.search(told):
        return Fault("too_long", told, again=False)
    wait = retry_after(error.response.headers.get("retry-after"))
    return Fault("http", f"HTTP {code}: {told}", code in _AGAIN, code in _BUSY, wait)


def retry_after(header: str | None) -> float | None:
    """Seconds that a Retry-After header asks to wait: a number or a date."""
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(header).timestamp() - time.time()
        except ValueError:
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def back_off(attempt: int, base: float = 0.5, most: float = 30.0) -> float:
    """Seconds before the next attempt: exponential, with full jitter, so that clients spread.

    The draw changes no result, so it has no seed.
    """
    return random.uniform(0, min(most, base * 2.0 ** min(attempt, 16)))


def masked(text: str, secret: str) -> str:
    """One line of bounded length, without the key."""
    if secret:
        text = text.replace(secret, "***")
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 3] + "..."
