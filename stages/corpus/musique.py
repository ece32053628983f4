"""MuSiQue: the paragraphs of its questions, and a passages file [{title, text}].

The questions are under CC BY 4.0; the text is Wikipedia's, under CC BY-SA.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from stages.corpus._benchmark import BenchmarkConfig, load_json, passage, question_field
from stages.corpus._openie import openie_triples
from stages.corpus._pipeline import write_corpus
from stages.corpus._source import Rejected, SourceDocument
from stages.runtime.context import StageContext

LICENCE = "CC-BY-4.0 (MuSiQue); text CC-BY-SA (Wikipedia)"


class Config(BenchmarkConfig):
    kind: Literal["musique"]


def run(config: Config, context: StageContext) -> dict[str, Any]:
    return write_corpus(context, config, _documents(config), openie_triples(config))


def _documents(config: Config) -> Iterator[SourceDocument | Rejected]:
    if config.passages is not None:
        for number, item in enumerate(load_json(config, "passages", list)):
            yield _passage(item, "text", f"{config.passages}[{number}]")
    questions = load_json(config, "questions", list)
    for source, paragraphs in question_field(questions, config.questions, "paragraphs"):
        if isinstance(paragraphs, Rejected):
            yield paragraphs
            continue
        for number, item in enumerate(paragraphs):
            yield _passage(item, "paragraph_text", f"{source}.paragraphs[{number}]")


def _passage(item: Any, field: str, source: str) -> SourceDocument | Rejected:
    fields = item if isinstance(item, dict) else {}
    return passage(fields.get("title"), fields.get(field), source, LICENCE)
