"""Small published datasets in a temporary folder, and a stage run over them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any

from schemas.contract import load_contract
from schemas.ids import content_id
from schemas.publish import publish
from schemas.write import DatasetWriter
from stages.corpus._chunks import chunk_spans
from stages.corpus._tokenizer import WordLevelTokenizer, make_tokenizer
from stages.runtime.context import StageContext
from stages.runtime.variant import load_variant, validate
from tests.unit.stages.corpus.conftest import PARAMS, WORDS, Ran


def words(text: str) -> int:
    return len(re.findall(r"\w+|[^\w\s]", text))


def put(folder: Path, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Publish `rows` as the dataset `name`, replacing what was there."""
    given = list(rows)
    work = folder / ".work" / "put" / name
    writer = DatasetWriter(load_contract(name), work)
    for row in given:
        writer.add(row)
    writer.finish(len(given))
    publish(work, folder / "data" / name)


def document_rows(passages: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    return [
        {
            "doc_id": content_id(title, text), "title": title, "text": text, "lang": "en",
            "source": title, "licence": None, "n_chars": len(text), "n_tokens": words(text),
        }
        for title, text in passages
    ]  # fmt: skip


def put_corpus(
    folder: Path,
    passages: Iterable[tuple[str, str]],
    triples: Iterable[Mapping[str, Any]] = (),
    max_sentences: int | None = 1,
) -> None:
    """Documents, chunks (of one sentence, unless told otherwise), triples and a tokenizer."""
    documents = document_rows(passages)
    put(folder, "documents", documents)
    put(folder, "chunks", (
        {
            "chunk_id": content_id(row["doc_id"], start, end), "doc_id": row["doc_id"],
            "position": position, "char_start": start, "char_end": end, "n_tokens": tokens,
        }
        for row in documents
        for position, (start, end, tokens)
        in enumerate(chunk_spans(row["text"], words, 64, max_sentences))
    ))  # fmt: skip
    put(folder, "triples", triples)
    config = WordLevelTokenizer(
        kind="word_level", max_words=10_000, markers=200, words=tuple(WORDS)
    )
    texts = [text for row in documents for text in (row["title"], row["text"])]
    make_tokenizer(config, texts).save_pretrained(folder / "models" / "tokenizer")


def question(name: str, gold: Sequence[str], split: str = "train", **values: Any) -> dict[str, Any]:
    """A question row with sound defaults; `gold` are document ids."""
    return {
        "question_id": content_id("question", name), "split": split, "question": f"What is {name}?",
        "answer": "end", "aliases": [], "entities": ["end"], "relations": [],
        "gold_doc_ids": list(gold), "gold_chunk_ids": [f"chunk of {doc}" for doc in gold],
        "hops": len(gold), "task_type": "multi_hop", "metric": "token_f1", "source": "test",
        "source_id": None, "wording": "0", **values,
    }  # fmt: skip


def run_stage(folder: Path, stage: str, values: Mapping[str, Any]) -> Ran:
    """Run a variant in `folder` and publish what it wrote."""
    with chdir(folder):
        config = validate(stage, dict(values))
        context = StageContext.create(stage, PARAMS)
        try:
            metrics = load_variant(stage, values["kind"]).run(config, context)
            context.publish(metrics)
        finally:
            context.close()
    return Ran(folder, metrics)


def data_bytes(ran: Ran, *names: str) -> dict[str, bytes]:
    """Every file of the given datasets with its bytes."""
    return {
        file: content
        for file, content in ran.files().items()
        if any(file.startswith(f"data/{name}/") for name in names)
    }
