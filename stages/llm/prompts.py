"""Rendering a question over its documents, with a citation marker after every chunk.

    The capital of France is Paris [3]. The currency of France is Euro [4].

Markers count from 1 in the order of the prompt, so a marker says nothing about which chunk is
gold. The same rendering serves token budgets, training, sampling and judging; its hash is stored
with what was generated from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import yaml

from schemas.errors import UserError
from schemas.ids import content_id

TEMPLATES = Path(__file__).parent / "templates"
_TAIL = re.compile(r"^(.*?)([.!?。!?…\"'’”)]*)(\s*)$", re.DOTALL)


class Tokenizer(Protocol):
    """The part of a Hugging Face tokenizer that rendering and counting need."""

    chat_template: str | None

    def encode(self, text: str, *, add_special_tokens: bool = ...) -> list[int]: ...

    def apply_chat_template(self, conversation: Any, **kwargs: Any) -> Any: ...


@dataclass(frozen=True)
class Chunk:
    chunk_id: str
    char_start: int
    char_end: int


@dataclass(frozen=True)
class Document:
    """A document with its chunks in order; chunks tile the text up to white space."""

    doc_id: str
    title: str
    text: str
    chunks: tuple[Chunk, ...]

    def chunk_text(self, chunk: Chunk) -> str:
        return self.text[chunk.char_start : chunk.char_end]


@dataclass(frozen=True)
class Template:
    name: str
    document: str
    joiner: str
    prompt: str
    hash: str
    thinking: bool = True
    """Whether it asks for an answer behind the end of a thinking block."""


@dataclass(frozen=True)
class Prompt:
    """A rendered prompt. `markers` maps each chunk id in it to its citation number."""

    text: str
    markers: Mapping[str, int]
    hash: str
    thinking: bool = True
    """As its template has it."""


@cache
def load_template(name: str) -> Template:
    """A prompt template by name, or by path when it ends in .yaml."""
    path = Path(name) if name.endswith(".yaml") else TEMPLATES / f"{name}.yaml"
    if not path.exists():
        raise UserError(
            f"no prompt template '{name}'",
            allowed=[p.stem for p in TEMPLATES.glob("*.yaml")],
            fix="name one of these, or a path that ends in .yaml",
        )
    text = path.read_text(encoding="utf-8")
    raw = yaml.safe_load(text)
    needed = {"document", "joiner", "prompt"}
    thinking = raw.pop("thinking", True)
    if set(raw) != needed or not isinstance(thinking, bool):
        raise UserError(
            f"prompt template {path} has keys {sorted(raw)}, thinking: {thinking}",
            allowed=[*sorted(needed), "thinking (true, false)"],
        )
    return Template(name, raw["document"], raw["joiner"], raw["prompt"], content_id(text), thinking)


def cite(text: str, marker: int) -> str:
    """The text with `[marker]` before its closing punctuation, as in running prose."""
    match = _TAIL.match(text)
    assert match is not None  # the pattern matches every string
    body, punctuation, space = match.groups()
    stripped = body.rstrip()
    return f"{stripped} [{marker}]{body[len(stripped) :]}{punctuation}{space}"


def render_prompt(
    template: Template,
    question: str,
    documents: Sequence[Document],
    tokenizer: Tokenizer | None = None,
    first_marker: int = 1,
) -> Prompt:
    """Render the documents in the given order, then the question.

    With a tokenizer that has a chat template, the text becomes one user turn with the generation
    prompt. The markers are the same with and without.
    """
    markers: dict[str, int] = {}
    blocks = []
    for document in documents:
        parts = []
        end = 0
        for chunk in document.chunks:
            markers[chunk.chunk_id] = len(markers) + first_marker
            parts.append(document.text[end : chunk.char_start])
            parts.append(cite(document.chunk_text(chunk), markers[chunk.chunk_id]))
            end = chunk.char_end
        parts.append(document.text[end:])
        blocks.append(fill(template.document, title=document.title, text="".join(parts)))
    text = fill(template.prompt, context=template.joiner.join(blocks), question=question)
    if tokenizer is not None and tokenizer.chat_template:
        text = tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
        )
    return Prompt(text, markers, content_id(text), template.thinking)


def count_tokens(tokenizer: Tokenizer, text: str) -> int:
    """Tokens of a text as the model reads it (a prompt brings its own special tokens)."""
    return len(tokenizer.encode(text, add_special_tokens=False))


def fill(template: str, **values: str) -> str:
    """Replace `{name}` in one pass; braces inside the values are left alone."""
    return re.sub(r"\{(\w+)\}", lambda m: values.get(m.group(1), m.group(0)), template)
