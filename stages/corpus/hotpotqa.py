"""HotpotQA: the paragraphs of its questions, and a passages file {title: [sentences]}.

The text is Wikipedia's, under CC BY-SA 4.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from stages.benchmarks.files import question_lists
from stages.benchmarks.hotpotqa import paragraph
from stages.corpus._benchmark import BenchmarkConfig, document, load
from stages.corpus._openie import openie_triples
from stages.corpus._pipeline import write_corpus
from stages.corpus._source import SourceDocument
from stages.runtime.context import StageContext
from stages.runtime.rejected import Rejected

LICENCE = "CC-BY-SA-4.0"


class Config(BenchmarkConfig):
    kind: Literal["hotpotqa"]


def run(config: Config, context: StageContext) -> dict[str, Any]:
    return write_corpus(context, config, _documents(config), openie_triples(config))


def _documents(config: Config) -> Iterator[SourceDocument | Rejected]:
    if config.passages is not None:
        passages = load(config, "passages", dict)
        for number, item in enumerate(passages.items()):
            yield document(paragraph(list(item), f"{config.passages}[{number}]"), LICENCE)
    questions = load(config, "questions", list)
    for source, question in question_lists(questions, config.questions, "context"):
        if isinstance(question, Rejected):
            yield question
            continue
        for number, entry in enumerate(question["context"]):
            yield document(paragraph(entry, f"{source}.context[{number}]"), LICENCE)
