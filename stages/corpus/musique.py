"""MuSiQue: the paragraphs of its questions, and a passages file [{title, text}].

The questions are under CC BY 4.0; the text is Wikipedia's, under CC BY-SA.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from stages.benchmarks.files import question_lists
from stages.benchmarks.musique import paragraph
from stages.corpus._benchmark import BenchmarkConfig, document, load
from stages.corpus._openie import openie_triples
from stages.corpus._pipeline import write_corpus
from stages.corpus._source import SourceDocument
from stages.runtime.context import StageContext
from stages.runtime.rejected import Rejected

LICENCE = "CC-BY-4.0 (MuSiQue); text CC-BY-SA (Wikipedia)"


class Config(BenchmarkConfig):
    kind: Literal["musique"]


def run(config: Config, context: StageContext) -> dict[str, Any]:
    return write_corpus(context, config, _documents(config), openie_triples(config))


def _documents(config: Config) -> Iterator[SourceDocument | Rejected]:
    if config.passages is not None:
        for number, item in enumerate(load(config, "passages", list)):
            yield document(paragraph(item, f"{config.passages}[{number}]", "text"), LICENCE)
    questions = load(config, "questions", list)
    for source, question in question_lists(questions, config.questions, "paragraphs"):
        if isinstance(question, Rejected):
            yield question
            continue
        for number, entry in enumerate(question["paragraphs"]):
            yield document(paragraph(entry, f"{source}.paragraphs[{number}]"), LICENCE)
