"""One call of a language model: what is asked, how an answer is drawn, and who asked.

A request with a `continuation` is scored, one without is answered. `id` is the row that asked:
answers come back by it, in any order. `group` names the text that requests share from their first
token on, such as a document; it orders the work and is no part of what is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from stages.runtime.variant import Settings


class Sampling(Settings):
    """How an answer is drawn; part of a stage's identity."""

    temperature: float = Field(ge=0, description="0 is greedy")
    top_p: float = Field(gt=0, le=1)
    max_new_tokens: int = Field(ge=1)


@dataclass(frozen=True)
class Message:
    """One turn of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str


Prompt = str | tuple[Message, ...]


@dataclass(frozen=True)
class Request:
    """What is asked of a model.

    `prompt` is the rendered text, which is encoded without further special tokens, or the turns of
    a chat, which the model's own template renders. `schema` is a JSON schema as JSON text: the
    answer must be a value of it. Several answers to one prompt are several requests that differ in
    `seed`.
    """

    id: str
    prompt: Prompt
    seed: int = 0
    schema: str | None = None
    continuation: str | None = None
    group: str = ""
