"""What all language-model judges are told."""

from __future__ import annotations

from pydantic import Field

from stages.judge._case import Reads
from stages.llm.model import Model
from stages.llm.request import Sampling
from stages.runtime.variant import Settings


class LanguageJudge(Settings):
    """A judge names its model itself: by default it is not the policy, nor shares its context."""

    model: Model
    prompt: str = Field(min_length=1, description="A template of stages/judge/prompts, or a path")
    reads: Reads


class WritingJudge(LanguageJudge):
    """A judge that writes its reasons and its decision."""

    sampling: Sampling
    explanation_chars: int = Field(ge=1, description="Longest explanation")
    seed: int = Field(ge=0)
