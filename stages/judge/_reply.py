"""The reply of a judge in JSON: {explanation, NAME}, the reason before the decision (R3, arXiv
2505.13388). Guided decoding holds the model to it, and the layer checks it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


def reply_schema(name: str, choices: Sequence[int] | Sequence[str], explanation_chars: int) -> str:
    """The schema of a reply whose `name` is one of `choices`.

    The bound on the explanation leaves a small model no way to talk until it is cut off, which
    would break the JSON.
    """
    kind = "integer" if isinstance(choices[0], int) else "string"
    schema = {
        "type": "object",
        "properties": {
            "explanation": {"type": "string", "maxLength": explanation_chars},
            name: {"type": kind, "enum": list(choices)},
        },
        "required": ["explanation", name],
        "additionalProperties": False,
    }
    return json.dumps(schema)


def read_reply(text: str | None, name: str) -> tuple[Any, str]:
    """The decision and the explanation of a reply that the layer found to be of the schema."""
    reply = json.loads(text or "")
    return reply[name], reply["explanation"].strip()
