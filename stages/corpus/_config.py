"""The parameters that every corpus variant has."""

from __future__ import annotations

from pydantic import Field

from stages.corpus._extraction import Extraction
from stages.corpus._tokenizer import TokenizerConfig
from stages.runtime.variant import Settings, StageConfig


class ChunkConfig(Settings):
    """Chunks end at a sentence, as late as these limits allow."""

    max_tokens: int = Field(ge=1)
    max_sentences: int | None = Field(ge=1)


class CorpusConfig(StageConfig):
    """What every corpus variant is told."""

    path: str = Field(min_length=1, description="The user's files; DVC watches them")
    tokenizer: TokenizerConfig
    chunk: ChunkConfig
    extraction: Extraction | None = Field(
        default=None, description="A model that reads triples out of the chunks; null: none"
    )
