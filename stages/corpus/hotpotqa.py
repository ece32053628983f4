"""HotpotQA: the paragraphs of its questions, and a passages file {title: [sentences]}.

A document's text is its sentences in order, joined as they come (HotpotQA's sentences bring
their own leading space; where there is none, one is put in), so that each sentence is found in it
by its stripped text. The text is Wikipedia's, under CC BY-SA 4.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from stages.corpus._benchmark import BenchmarkConfig, load_json, passage, question_field
from stages.corpus._openie import openie_triples
from stages.corpus._pipeline import write_corpus
from stages.corpus._source import Rejected, SourceDocument
from stages.runtime.context import StageContext

LICENCE = "CC-BY-SA-4.0"


class Config(BenchmarkConfig):
    kind: Literal["hotpotqa"]


def run(config: Config, context: StageContext) -> dict[str, Any]:
    return write_corpus(context, config, _documents(config), openie_triples(config))


def join_sentences(sentences: Any) -> str | None:
    """One text from a paragraph's sentences; None when they are not a list of strings."""
    if not (isinstance(sentences, list) and all(isinstance(s, str) for s in sentences)):
        return None
    text = ""
    for sentence in sentences:
        apart = not text or text[-1].isspace() or not sentence or sentence[0].isspace()
        text += sentence if apart else f" {sentence}"
    return text.strip()


def _documents(config: Config) -> Iterator[SourceDocument | Rejected]:
    if config.passages is not None:
        passages = load_json(config, "passages", dict)
        for number, (title, sentences) in enumerate(passages.items()):
            place = f"{config.passages}[{number}]"
            yield passage(title, join_sentences(sentences), place, LICENCE)
    questions = load_json(config, "questions", list)
    for source, context in question_field(questions, config.questions, "context"):
        if isinstance(context, Rejected):
            yield context
            continue
        for number, paragraph in enumerate(context):
            pair = paragraph if isinstance(paragraph, list) and len(paragraph) == 2 else [None] * 2
            place = f"{source}.context[{number}]"
            yield passage(pair[0], join_sentences(pair[1]), place, LICENCE)
