"""A request as text and as tokens: the same for every back end that has the model's tokenizer.

No special tokens are added beyond those that the text itself holds.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from schemas.errors import UserError
from stages.llm.request import Prompt, Request

_BATCH = 256


class Encoder:
    """A tokenizer, and the tokens of the requests that were encoded last.

    A long prompt is encoded once: when the layer looks at its length, and not again when it is
    sent. `thinking` is the model's.
    """

    def __init__(self, tokenizer: Any, thinking: bool | None = None) -> None:
        self.tokenizer = tokenizer
        self.thinking = thinking
        self._kept: dict[Prompt, array[int]] = {}

    def encode(self, requests: Sequence[Request]) -> list[array[int]]:
        """The tokens of each prompt and of what is scored behind it, encoded on all cores.

        Those of the requests before are forgotten.
        """
        parts: dict[Prompt, None] = {}
        for request in requests:
            parts[request.prompt] = None
            if request.continuation is not None:
                parts[request.continuation] = None
        wanted = list(parts)
        self._kept = {}
        for start in range(0, len(wanted), _BATCH):
            some = wanted[start : start + _BATCH]
            encoded = self.tokenizer(
                [self.render(part) for part in some],
                add_special_tokens=False, return_attention_mask=False, verbose=False,
            )["input_ids"]  # fmt: skip
            self._kept |= zip(some, (array("I", tokens) for tokens in encoded), strict=True)
        return [
            self._kept[request.prompt]
            if request.continuation is None
            else self._kept[request.prompt] + self._kept[request.continuation]
            for request in requests
        ]

    def prompt(self, request: Request) -> list[int]:
        """The tokens before the answer."""
        return self._tokens(request.prompt)

    def continuation(self, request: Request) -> list[int]:
        """Those of what is scored; none for a request to generate."""
        return [] if request.continuation is None else self._tokens(request.continuation)

    def render(self, prompt: Prompt) -> str:
        """The prompt as the model reads it; turns of a chat by the model's own template."""
        if isinstance(prompt, str):
            return prompt
        if not self.tokenizer.chat_template:
            raise UserError(
                "the model has no chat template, but a stage asks it in turns of a chat",
                fix="use a model that was made for chat (its folder has chat_template.jinja)",
            )
        text: str = self.tokenizer.apply_chat_template(
            [{"role": message.role, "content": message.content} for message in prompt],
            tokenize=False,
            add_generation_prompt=True,
            **template_arguments(self.thinking),
        )
        return text

    def _tokens(self, part: Prompt) -> list[int]:
        kept = self._kept.get(part)
        if kept is not None:
            return kept.tolist()
        tokens: list[int] = self.tokenizer.encode(self.render(part), add_special_tokens=False)
        return tokens


def template_arguments(thinking: bool | None) -> dict[str, bool]:
    """What a chat template is told of thinking. The families use one of two names for it, and a
    template passes over a name that it does not know."""
    return {} if thinking is None else {"enable_thinking": thinking, "thinking": thinking}
