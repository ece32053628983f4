"""A request as text and as tokens: the same for every back end that has the model's tokenizer.

No special tokens are added beyond those that the text itself holds.
"""

from __future__ import annotations

from typing import Any

from schemas.errors import UserError
from stages.llm.request import Request


def render(tokenizer: Any, request: Request) -> str:
    """The prompt as the model reads it; turns of a chat by the model's own template."""
    if isinstance(request.prompt, str):
        return request.prompt
    if not tokenizer.chat_template:
        raise UserError(
            "the model has no chat template, but a stage asks it in turns of a chat",
            fix="use a model that was made for chat (its folder has chat_template.jinja)",
        )
    text: str = tokenizer.apply_chat_template(
        [{"role": message.role, "content": message.content} for message in request.prompt],
        tokenize=False,
        add_generation_prompt=True,
    )
    return text


def prompt_tokens(tokenizer: Any, request: Request) -> list[int]:
    tokens: list[int] = tokenizer.encode(render(tokenizer, request), add_special_tokens=False)
    return tokens


def continuation_tokens(tokenizer: Any, request: Request) -> list[int]:
    """Those of what is scored; none for a request to generate."""
    if request.continuation is None:
        return []
    tokens: list[int] = tokenizer.encode(request.continuation, add_special_tokens=False)
    return tokens


def count_tokens(tokenizer: Any, request: Request) -> int:
    """Tokens of the prompt and of what is scored behind it."""
    return len(prompt_tokens(tokenizer, request)) + len(continuation_tokens(tokenizer, request))
