"""A request as text: turns of a chat by the model's template, told whether to think."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stages.llm.backends.encoding import Encoder
from stages.llm.request import Message, Request
from stages.llm.tokenizer import load_tokenizer

HYBRID = (
    "{% for m in messages %}{{ m.content }}{% endfor %}"
    "{% if NAME is defined and NAME is false %} Answer :{% endif %}"
)
TURNS = (Message("user", "What is old ?"),)


@pytest.mark.parametrize("name", ["enable_thinking", "thinking"])
@pytest.mark.parametrize(
    ("thinking", "text"),
    [
        (None, "What is old ?"),
        (True, "What is old ?"),
        (False, "What is old ? Answer :"),
    ],
)
def test_the_template_is_told(
    tiny_model: Path, name: str, thinking: bool | None, text: str
) -> None:
    tokenizer: Any = load_tokenizer(tiny_model)
    tokenizer.chat_template = HYBRID.replace("NAME", name)
    encoder = Encoder(tokenizer, thinking)
    assert encoder.render(TURNS) == text
    wanted = tokenizer.encode(text, add_special_tokens=False)
    asked = Request("a", TURNS, seed=1)
    assert encoder.prompt(asked) == wanted
    assert [list(tokens) for tokens in encoder.encode([asked])] == [wanted]


def test_a_text_stays_as_it_is(tiny_model: Path) -> None:
    assert Encoder(load_tokenizer(tiny_model), False).render("Rome") == "Rome"
