"""Rendered prompts for the questions of a stage, a batch at a time.

Only the documents of one batch are in memory, however large the corpus is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from schemas.read import Dataset
from stages.llm.prompts import Chunk, Document, Prompt, Template, Tokenizer, render_prompt
from stages.runtime.context import StageContext

_BATCH = 256


@dataclass(frozen=True)
class Item:
    """One question with one of its contexts, rendered."""

    question: Mapping[str, Any]
    context: Mapping[str, Any]
    prompt: Prompt
    gold_chunks: Mapping[str, str]
    """Text of each gold chunk that the prompt holds, by chunk id."""


def load_documents(
    documents: Dataset, chunks: Dataset, doc_ids: Sequence[str]
) -> dict[str, Document]:
    """Documents with their chunks, by id. Ids that are not there are left out."""
    ids = sorted(set(doc_ids))
    where = "doc_id IN (SELECT unnest(?))"
    by_document: dict[str, list[Chunk]] = defaultdict(list)
    for row in chunks.rows(where, parameters=[ids]):
        by_document[row["doc_id"]].append(
            Chunk(row["chunk_id"], row["char_start"], row["char_end"])
        )
    return {
        row["doc_id"]: Document(
            row["doc_id"], row["title"], row["text"], tuple(by_document[row["doc_id"]])
        )
        for row in documents.rows(where, parameters=[ids])
    }


def items(
    context: StageContext,
    template: Template,
    tokenizer: Tokenizer | None,
    *,
    view: str,
    splits: Iterable[str],
    limit: Mapping[str, int] | None = None,
) -> Iterator[Item]:
    """The questions of the given splits that have a context of this view, rendered.

    `limit` caps the number of questions of a split; the cap takes the first by question id, which
    is a content hash and so a random order.
    """
    wanted = set(splits)
    questions = {
        row["question_id"]: row for row in context.read("questions") if row["split"] in wanted
    }
    taken: dict[str, int] = defaultdict(int)

    def chosen() -> Iterator[dict[str, Any]]:
        for row in context.dataset("contexts").rows("view = ?", parameters=[view]):
            if row["question_id"] not in questions:
                continue
            if limit is not None and taken[row["split"]] >= limit.get(row["split"], 1 << 62):
                continue
            taken[row["split"]] += 1
            yield row

    rows = chosen()
    while batch := list(islice(rows, _BATCH)):
        ids = [entry["doc_id"] for row in batch for entry in row["documents"]]
        library = load_documents(context.dataset("documents"), context.dataset("chunks"), ids)
        for row in batch:
            question = questions[row["question_id"]]
            documents = [library[entry["doc_id"]] for entry in row["documents"]]
            gold = set(question["gold_chunk_ids"])
            yield Item(
                question,
                row,
                render_prompt(template, question["question"], documents, tokenizer),
                {
                    chunk.chunk_id: document.chunk_text(chunk)
                    for document in documents
                    for chunk in document.chunks
                    if chunk.chunk_id in gold
                },
            )
