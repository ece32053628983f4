"""Wording a walk as a question from a template file; the file's hash is stored with the question.

The question names where the walk starts and which relations it takes, never an entity on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from schemas.errors import UserError
from schemas.ids import content_id

TEMPLATES = Path(__file__).parent / "wordings"


@dataclass(frozen=True)
class Wording:
    question: str
    step: str
    joiner: str
    last_step_first: bool
    hash: str

    def ask(self, start: str, relations: Sequence[str]) -> str:
        """The question for a walk from `start` along `relations`."""
        steps = [self.step.replace("{relation}", relation) for relation in relations]
        if self.last_step_first:
            steps.reverse()
        before, after = self.question.split("{steps}")
        return (before + self.joiner.join(steps) + after).replace("{start}", start)


@cache
def load_wording(name: str) -> Wording:
    """A wording by name; `UserError` lists the templates there are."""
    path = TEMPLATES / f"{name}.yaml"
    if not path.exists():
        raise UserError(
            f"no question wording '{name}'",
            allowed=[p.stem for p in TEMPLATES.glob("*.yaml")],
        )
    text = path.read_text(encoding="utf-8")
    return Wording(**yaml.safe_load(text), hash=content_id(text))
