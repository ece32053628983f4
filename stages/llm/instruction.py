"""An instruction to a model: a template file with one text, whose {names} a stage fills.

Text from data is put in literally, whatever braces it has. A placeholder that nothing fills would
reach the model as it is written, so one that is unknown or missing is an error.
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
from stages.llm.prompts import fill
from stages.llm.request import Message


@dataclass(frozen=True)
class Instruction:
    """A template; its hash is stored with what it led to."""

    text: str
    hash: str

    def messages(self, **values: str) -> tuple[Message, ...]:
        """The instruction as one turn of a chat."""
        return (Message("user", fill(self.text, **values)),)


@cache
def load_instruction(name: str, folder: Path, needs: frozenset[str]) -> Instruction:
    """The instruction `name` of a stage's folder, or one by path when it ends in .yaml.

    Its text must hold every placeholder of `needs` and no other.
    """
    path, values, digest = load_texts(name, folder, {"instruction"})
    check_placeholders(path, "instruction", values["instruction"], needs, needs)
    return Instruction(values["instruction"], digest)


def load_texts(name: str, folder: Path, keys: Collection[str]) -> tuple[Path, dict[str, str], str]:
    """A template file that maps exactly `keys` to texts, with its path and the hash of its text."""
    path = Path(name) if name.endswith(".yaml") else folder / f"{name}.yaml"
    if not path.exists():
        raise UserError(
            f"no prompt '{name}'",
            allowed=[p.stem for p in folder.glob("*.yaml")],
            fix="name one of these, or a path that ends in .yaml",
        )
    text = path.read_text(encoding="utf-8")
    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UserError(f"prompt {path} is not YAML: {error}") from error
    if not isinstance(raw, dict) or set(raw) != set(keys):
        found = sorted(map(str, raw)) if isinstance(raw, dict) else type(raw).__name__
        raise UserError(f"prompt {path} has {found}, not the keys it needs", allowed=keys)
    wrong = [key for key in sorted(keys) if not isinstance(raw[key], str)]
    if wrong:
        raise UserError(f"prompt {path}: '{wrong[0]}' is no text")
    return path, raw, content_id(text)


def check_placeholders(
    path: Path, key: str, text: str, needs: Collection[str], allowed: Collection[str]
) -> None:
    """`UserError` for a placeholder that nothing fills, or one that is missing."""
    found = set(re.findall(r"\{(\w+)\}", text))
    shown = [f"{{{name}}}" for name in sorted(allowed)]
    for name in sorted(found - set(allowed)):
        raise UserError(f"prompt {path}: '{key}' has unknown {{{name}}}", allowed=shown)
    for name in sorted(set(needs) - found):
        raise UserError(f"prompt {path}: '{key}' lacks {{{name}}}", allowed=shown)
