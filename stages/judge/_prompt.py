"""The prompt of a language-model judge, from a template file: first what all candidates share.

    document, joiner    how the documents of {context} are written
    shared              the documents and the question: the same text for every candidate
    ask                 what is asked about one candidate, or about two

The engine computes the shared text once for all that is asked behind it, so a template puts
nothing before the documents, and the candidate and what it is judged by last. A template without
{context} judges without the documents. Text from data is put in literally, whatever braces it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from stages.llm.instruction import check_placeholders, load_texts
from stages.llm.prompts import Template

PROMPTS = Path(__file__).parent / "prompts"


@dataclass(frozen=True)
class JudgePrompt:
    """A template; its hash is stored with every judgment that it led to."""

    shared: Template
    ask: str
    hash: str


@cache
def load_prompt(name: str, needs: frozenset[str]) -> JudgePrompt:
    """A template by name, or by path when it ends in .yaml.

    `ask` must hold the placeholders `needs`, and may hold {reference}, the gold answers.
    """
    path, texts, digest = load_texts(name, PROMPTS, {"document", "joiner", "shared", "ask"})
    check_placeholders(path, "document", texts["document"], {"text"}, {"text", "title"})
    check_placeholders(path, "shared", texts["shared"], {"question"}, {"question", "context"})
    check_placeholders(path, "ask", texts["ask"], needs, needs | {"reference"})
    template = Template(name, texts["document"], texts["joiner"], texts["shared"], digest)
    return JudgePrompt(template, texts["ask"], digest)
