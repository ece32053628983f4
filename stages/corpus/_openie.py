"""Triples that an OpenIE run extracted from passages (HippoRAG's file).

    {"docs": [{"title": ..., "text": ..., "extracted_triples": [[head, relation, tail], ...]}]}

A model wrote these, so some are no triples: not three parts, parts that are no strings, empty
parts. Each of those is rejected under `malformed_triple` with its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from schemas.errors import UserError
from schemas.ids import content_id
from stages.corpus._benchmark import BenchmarkConfig, load
from stages.corpus._source import SourceTriple
from stages.runtime.rejected import Rejected, excerpt, is_unicode


def openie_triples(config: BenchmarkConfig) -> Iterator[SourceTriple | Rejected]:
    """The triples of the file that the config names; none when it names none."""
    if config.triples is None:
        return
    docs = load(config, "triples", dict).get("docs")
    if not isinstance(docs, list):
        raise UserError(
            f"{config.path}/{config.triples}: there is no list 'docs'",
            fix="corpus.triples must be an OpenIE file, or null",
        )
    for number, doc in enumerate(docs):
        yield from _of_document(doc, f"{config.triples}:docs[{number}]")


def _of_document(doc: Any, source: str) -> Iterator[SourceTriple | Rejected]:
    fields = doc if isinstance(doc, dict) else {}
    title, text, triples = (fields.get(key) for key in ("title", "text", "extracted_triples"))
    if not (isinstance(title, str) and isinstance(text, str) and isinstance(triples, list)):
        reason = "title and text must be strings, extracted_triples a list"
        yield Rejected(source, "malformed_document", reason, excerpt(doc))
        return
    doc_id = content_id(title, text) if is_unicode(title, text) else ""
    for number, triple in enumerate(triples):
        place = f"{source}[{number}]"
        defect = _defect(triple)
        if defect is None:
            head, relation, tail = triple
            yield SourceTriple(head, relation, tail, place, doc_id=doc_id)
        else:
            yield Rejected(place, "malformed_triple", defect, excerpt(triple))


def _defect(triple: Any) -> str | None:
    if not isinstance(triple, list):
        return "not a list"
    if len(triple) != 3:
        return f"{len(triple)} parts instead of 3"
    if not all(isinstance(part, str) for part in triple):
        return "a part is not a string"
    if not all(part.strip() for part in triple):
        return "a part is empty"
    return None
