"""The prompt of a language-model judge, from a template file: first what all candidates share.

    document, joiner    how the documents of {context} are written
    shared              the documents and the question: the same text for every candidate
    ask                 what is asked about one candidate, or about two

The engine computes the shared text once for all that is asked behind it, so a template puts
nothing before the documents, and the candidate and what it is judged by last. A template without
{context} judges without the documents. Text from data is put in literally, whatever braces it has.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from schemas.errors import UserError
from schemas.ids import content_id
from stages.llm.prompts import Template

PROMPTS = Path(__file__).parent / "prompts"
_KEYS = {"document", "joiner", "shared", "ask"}
_SHARED = {"context", "question"}


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
    path = Path(name) if name.endswith(".yaml") else PROMPTS / f"{name}.yaml"
    if not path.exists():
        raise UserError(
            f"no judge prompt '{name}'",
            allowed=[p.stem for p in PROMPTS.glob("*.yaml")],
            fix="name one of these, or a path that ends in .yaml",
        )
    text = path.read_text(encoding="utf-8")
    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UserError(f"judge prompt {path} is not YAML: {error}") from error
    if not isinstance(raw, dict) or set(raw) != _KEYS:
        found = sorted(map(str, raw)) if isinstance(raw, dict) else type(raw).__name__
        raise UserError(f"judge prompt {path} has {found}, not the keys it needs", allowed=_KEYS)
    wrong = [key for key in sorted(_KEYS) if not isinstance(raw[key], str)]
    if wrong:
        raise UserError(f"judge prompt {path}: '{wrong[0]}' is no text")
    _check(path, "shared", raw["shared"], {"question"}, _SHARED)
    _check(path, "ask", raw["ask"], needs, needs | {"reference"})
    template = Template(name, raw["document"], raw["joiner"], raw["shared"], content_id(text))
    return JudgePrompt(template, raw["ask"], content_id(text))


def _check(
    path: Path, key: str, text: str, needs: Collection[str], allowed: Collection[str]
) -> None:
    """A placeholder that nothing fills would reach the judge as it is written."""
    found = set(re.findall(r"\{(\w+)\}", text))
    shown = [f"{{{name}}}" for name in sorted(allowed)]
    for name in sorted(found - set(allowed)):
        raise UserError(f"judge prompt {path}: '{key}' has unknown {{{name}}}", allowed=shown)
    for name in sorted(set(needs) - found):
        raise UserError(f"judge prompt {path}: '{key}' lacks {{{name}}}", allowed=shown)
