"""What the question-answering benchmarks share as corpora: parameters, and passages as documents.

Every passage of the questions becomes a document, whether the passages file holds it or not;
the pipeline keeps each content once.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from stages.benchmarks.files import load_json
from stages.benchmarks.passages import Passage
from stages.corpus._config import CorpusConfig
from stages.corpus._source import SourceDocument
from stages.runtime.rejected import Rejected


class BenchmarkConfig(CorpusConfig):
    """File names inside `path`."""

    questions: str = Field(min_length=1)
    passages: str | None = Field(description="null: only the questions' own paragraphs")
    triples: str | None = Field(description="OpenIE triples of the passages")


def load(config: BenchmarkConfig, field: str, expected: type) -> Any:
    """The JSON file that `field` names, with the outermost type it must have."""
    return load_json(config.path, str(getattr(config, field)), f"corpus.{field}", expected)


def document(item: Passage | Rejected, licence: str) -> SourceDocument | Rejected:
    """A passage as a document of the corpus."""
    if isinstance(item, Rejected):
        return item
    return SourceDocument(item.title, item.text, item.source, lang="en", licence=licence)
