"""What all corpus variants share: items in, documents, chunks, triples and the tokenizer out.

    def run(config, context):
        return write_corpus(context, config, documents(config), triples(config))

Guarantees: the same items give the same bytes; a document's id is `content_id(title, text)`, and
a content that comes twice is kept once (the first); every item is counted as a row, as
quarantined or as dropped; memory is bounded by a batch, not by the corpus.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from schemas.ids import content_id
from stages.corpus._chunks import chunk_spans
from stages.corpus._config import CorpusConfig
from stages.corpus._extraction import check, extract_triples
from stages.corpus._source import Dropped, SourceDocument, SourceTriple
from stages.corpus._spool import Spool, Spooled
from stages.corpus._tokenizer import make_tokenizer
from stages.corpus._triples import write_triples
from stages.runtime.context import StageContext
from stages.runtime.progress import track
from stages.runtime.rejected import Rejected, excerpt, is_unicode, reject

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_BATCH = 256
_BATCH_CHARS = 4_000_000


def write_corpus(
    context: StageContext,
    config: CorpusConfig,
    documents: Iterable[SourceDocument | Rejected | Dropped],
    triples: Iterable[SourceTriple | Rejected] = (),
) -> dict[str, Any]:
    """Write the three datasets and `models/tokenizer`; returns the metrics."""
    extraction = config.extraction
    if extraction is not None:
        check(context, extraction)
    spool = Spool(context.scratch / "documents.sqlite")
    try:
        documents_in, duplicates = _spool_documents(context, spool, documents)
        tokenizer = make_tokenizer(config.tokenizer, spool.texts())
        tokenizer.save_pretrained(context.model_folder("tokenizer"))
        tokens, chunks_in = _write_texts(context, spool, tokenizer, config)
        written = context.finish("documents", documents_in)
        if extraction is not None:
            triples = chain(triples, extract_triples(context, spool, extraction))
        triples_in = write_triples(context, spool, triples)
    finally:
        spool.close()
    return {
        "documents": written.rows,
        "chunks": context.finish("chunks", chunks_in).rows,
        "triples": context.finish(
            "triples", triples_in, None if extraction is None else extraction.bound
        ).rows,
        "duplicates": duplicates,
        "tokens": {
            "total": tokens["total"],
            "mean": round(tokens["total"] / max(written.rows, 1), 2),
            "max": tokens["max"],
            "unknown": tokens["unknown"],
        },
        "vocabulary": len(tokenizer),
    }


def _spool_documents(
    context: StageContext,
    spool: Spool,
    documents: Iterable[SourceDocument | Rejected | Dropped],
) -> tuple[int, int]:
    """Take the documents in; returns how many items came, and how many were duplicates."""
    writer = context.writer("documents")
    items = duplicates = 0
    for item in track(documents, "documents read"):
        items += 1
        outcome = _checked(item) if isinstance(item, SourceDocument) else item
        if isinstance(outcome, SourceDocument):
            added = spool.add(outcome)
            if added == "duplicate":
                duplicates += 1
                outcome = Dropped("duplicate")
            elif added == "duplicate_id":
                outcome = Rejected(
                    outcome.source, added, f"the id '{excerpt(outcome.user_id)}' already names "
                    "another text", excerpt(outcome.text),
                )  # fmt: skip
        if isinstance(outcome, Rejected):
            reject(writer, outcome)
        elif isinstance(outcome, Dropped):
            writer.drop(outcome.reason)
    return items, duplicates


def _checked(document: SourceDocument) -> SourceDocument | Rejected:
    """The document, or why no row can be made of it."""
    fields = (document.title, document.text, document.lang, document.licence, document.user_id)
    if not is_unicode(*fields):
        rule, reason = "invalid_unicode", "half of a surrogate pair is no character"
    elif not document.text.strip():
        rule, reason = "text_not_empty", "the text is empty"
    else:
        return document
    return Rejected(document.source, rule, reason, excerpt(document.text))


def _write_texts(
    context: StageContext, spool: Spool, tokenizer: PreTrainedTokenizerBase, config: CorpusConfig
) -> tuple[dict[str, int], int]:
    """Count, cut and write every document; returns token numbers and how many chunks."""
    chunk = config.chunk
    rows, chunk_rows = context.writer("documents"), context.writer("chunks")
    tokens = {"total": 0, "max": 0, "unknown": 0}
    chunks = 0

    def count_tokens(text: str) -> int:
        return len(_ids(tokenizer, [text])[0])

    batches = _batches(spool.documents())
    for document, ids in track(
        chain.from_iterable(zip(b, _ids(tokenizer, [d.text for d in b]), strict=True)
                            for b in batches),
        "documents cut",
    ):  # fmt: skip
        rows.add({**vars(document), "n_chars": len(document.text), "n_tokens": len(ids)})
        if not ids:
            continue  # the contract quarantines it
        tokens["total"] += len(ids)
        tokens["max"] = max(tokens["max"], len(ids))
        if tokenizer.unk_token_id is not None:
            tokens["unknown"] += ids.count(tokenizer.unk_token_id)
        spans = chunk_spans(document.text, count_tokens, chunk.max_tokens, chunk.max_sentences)
        for position, (start, end, n_tokens) in enumerate(spans):
            chunk_rows.add(
                {
                    "chunk_id": content_id(document.doc_id, start, end),
                    "doc_id": document.doc_id,
                    "position": position,
                    "char_start": start,
                    "char_end": end,
                    "n_tokens": n_tokens,
                }
            )
        chunks += len(spans)
        if config.extraction is not None:
            spool.add_chunks(document.doc_id, spans)
    return tokens, chunks


def _ids(tokenizer: PreTrainedTokenizerBase, texts: list[str]) -> list[list[int]]:
    ids: list[list[int]] = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
    return ids


def _batches(documents: Iterable[Spooled]) -> Iterator[list[Spooled]]:
    batch: list[Spooled] = []
    chars = 0
    for document in documents:
        batch.append(document)
        chars += len(document.text)
        if len(batch) >= _BATCH or chars >= _BATCH_CHARS:
            yield batch
            batch, chars = [], 0
    if batch:
        yield batch
