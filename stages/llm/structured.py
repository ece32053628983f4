"""JSON answers: reading them, holding them to their schema, and asking once for a correction.

The layer keeps a model's own words; whether they are what was asked is decided here each time they
are read, so a better check needs no new answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, NoReturn

from schemas.errors import UserError
from stages.llm.answer import Answer
from stages.llm.request import Message, Request

_FENCE = re.compile(r"^```(?:json)?\s*\n(.*?)\n?```$", re.DOTALL)


@dataclass(frozen=True)
class Fault:
    """Why an answer is not what was asked."""

    status: Literal["broken_json", "schema_mismatch"]
    detail: str


def check_schemas(schemas: Iterable[str]) -> None:
    """`UserError` for a schema that is none, before anything is asked."""
    for schema in set(schemas):
        _validator(schema)


def read(answer: Answer, schema: str) -> Answer | Fault:
    """The answer as `ok` with the JSON alone as its text, or what is wrong with it.

    White space and a code fence around the value are passed over; anything else around it is not.
    """
    text = (answer.text or "").strip()
    fenced = _FENCE.match(text)
    if fenced is not None:
        text = fenced.group(1).strip()
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        cut = f"cut at the limit of {answer.n_tokens} tokens: " if answer.status == "length" else ""
        return Fault("broken_json", f"{cut}{error}")
    wrong = _mismatch(schema, value)
    if wrong:
        return Fault("schema_mismatch", wrong)
    return replace(answer, status="ok", text=text)


def repair(request: Request, answer: Answer, fault: Fault) -> Request:
    """The request that shows the model its answer and what is wrong with it."""
    wanted = (
        f"That is not what was asked: {fault.detail}. Answer again, with nothing but a JSON value "
        "that keeps the schema."
    )
    if isinstance(request.prompt, str):
        prompt: Any = f"{request.prompt}{answer.text}\n\n{wanted}\n\n"
    else:
        turns = Message("assistant", answer.text or ""), Message("user", wanted)
        prompt = (*request.prompt, *turns)
    return replace(request, prompt=prompt)


def joined(first: Answer, second: Answer, fault: Fault, schema: str) -> Answer:
    """The answer after a repair: with the tokens, seconds and attempts of both."""
    together = replace(
        second,
        n_prompt_tokens=first.n_prompt_tokens + second.n_prompt_tokens,
        n_cached_tokens=None
        if first.n_cached_tokens is None or second.n_cached_tokens is None
        else first.n_cached_tokens + second.n_cached_tokens,
        n_tokens=first.n_tokens + second.n_tokens,
        seconds=first.seconds + second.seconds,
        attempts=first.attempts + second.attempts,
    )
    if second.status not in ("ok", "length"):
        detail = f"{fault.detail}; the repair ended as {second.status}: {second.detail}"
        return replace(together, status=fault.status, text=None, detail=detail)
    found = read(second, schema)
    if isinstance(found, Fault):
        return replace(
            together, status=found.status, text=None, detail=f"after a repair: {found.detail}"
        )
    return replace(together, status="ok", text=found.text)


@cache
def _validator(schema: str) -> Any:
    import jsonschema
    from referencing import Registry

    try:
        parsed = json.loads(schema)
        jsonschema.Draft202012Validator.check_schema(parsed)
    except (ValueError, jsonschema.SchemaError) as error:
        told = getattr(error, "message", str(error))
        raise UserError(
            f"not a JSON schema: {told} (schema: {schema[:200]})", fix="correct the schema"
        ) from error
    # An empty registry: a $ref to elsewhere is never fetched.
    return jsonschema.Draft202012Validator(parsed, registry=Registry())


def _mismatch(schema: str, value: Any) -> str:
    import jsonschema
    from referencing.exceptions import Unresolvable

    try:
        error = jsonschema.exceptions.best_match(_validator(schema).iter_errors(value))
    except Unresolvable as unresolvable:
        raise UserError(
            f"the schema refers to what is not in it: {unresolvable} (schema: {schema[:200]})",
            fix="put the definition into the schema, under $defs",
        ) from unresolvable
    return "" if error is None else f"{error.json_path}: {error.message[:300]}"


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")
