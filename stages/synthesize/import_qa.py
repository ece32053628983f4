"""A benchmark's own questions with their evidence: HotpotQA and MuSiQue.

Each question's gold passages are found in `documents` by content id, so corpus and synthesize must
read the same benchmark; the gold chunks are those that overlap the evidence. What cannot be used
is quarantined with its place in the file. Questions that share a gold document stay in one split.

The answer metric is token F1, as in both benchmarks. How many questions there are, their order
and their ids do not depend on the seed, which only assigns splits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from schemas.errors import UserError
from schemas.ids import content_id
from stages.benchmarks.files import load_json, question_lists
from stages.runtime.context import StageContext
from stages.runtime.rejected import Rejected, excerpt, reject
from stages.runtime.variant import StageConfig
from stages.synthesize import _hotpotqa, _musique
from stages.synthesize._imported import Evidence, ImportedQuestion, LeftOut, Span, Unusable
from stages.synthesize._splits import SplitShares, split_components

SPLITS = ("train", "validation", "test")
WORDING = content_id("imported")
"""Stands where a walk has the hash of its template: a benchmark words its own questions."""

Chunks = Mapping[str, Sequence[tuple[str, Span]]]


class Config(StageConfig):
    kind: Literal["import_qa"]
    format: Literal["hotpotqa", "musique"]
    path: str = Field(min_length=1, description="The folder of the benchmark")
    questions: str = Field(min_length=1, description="The file in it that holds the questions")
    splits: SplitShares
    seed: int = Field(ge=0)


@dataclass(frozen=True)
class Format:
    """The list that every question of a format has, and the reader of one question."""

    passages: str
    read: Callable[[Mapping[str, Any], str], ImportedQuestion]


FORMATS = {
    "hotpotqa": Format("context", _hotpotqa.read_question),
    "musique": Format("paragraphs", _musique.read_question),
}


def run(config: Config, context: StageContext) -> dict[str, Any]:
    writer = context.writer("questions")
    raw = load_json(config.path, config.questions, "synthesize.questions", list)
    outcomes = list(read_questions(raw, config))
    chunks = load_chunks(context, outcomes)
    rows: dict[str, dict[str, Any]] = {}
    refused = []
    for outcome in outcomes:
        made: dict[str, Any] | Rejected | str
        if isinstance(outcome, ImportedQuestion):
            made = question_row(outcome, chunks, config.format)
        else:
            made = outcome
        if isinstance(made, Rejected):
            refused.append(made)
            reject(writer, made)
        elif isinstance(made, str):
            writer.drop(made)
        elif made["question_id"] in rows:
            writer.drop("duplicate_question")
        else:
            rows[made["question_id"]] = made
    if not rows:
        first = f"; first {refused[0].source}: {refused[0].reason}" if refused else ""
        raise UserError(
            f"{config.path}/{config.questions}: none of its {len(raw)} questions can be used"
            f"{first}",
            fix="corpus and synthesize must read the same benchmark: set corpus.kind, corpus.path "
            "and corpus.questions, which synthesize takes over",
        )
    gold = {question_id: row["gold_doc_ids"] for question_id, row in rows.items()}
    split_of = split_components(gold, config.splits, config.seed)
    counts = Counter(split_of.values())
    empty = [name for name in ("train", "test") if not counts[name]]
    if empty:
        raise UserError(
            f"synthesize: no question is left for the {empty[0]} split: questions that share a "
            f"gold document stay together, and {len(rows)} questions cannot be parted as "
            "synthesize.splits asks",
            fix="use more questions, or other shares in synthesize.splits",
        )
    for question_id, row in rows.items():
        writer.add({**row, "split": split_of[question_id]})
    context.finish("questions", rows_in=len(raw))
    return {
        "questions": {split: counts[split] for split in SPLITS},
        "gold_documents": len({doc_id for doc_ids in gold.values() for doc_id in doc_ids}),
    }


def read_questions(
    questions: list[Any], config: Config
) -> Iterable[ImportedQuestion | Rejected | str]:
    """Each question as read, or rejected, or the reason why it is left out."""
    form = FORMATS[config.format]
    for source, question in question_lists(questions, config.questions, form.passages):
        if isinstance(question, Rejected):
            yield question
            continue
        try:
            yield form.read(question, source)
        except Unusable as error:
            shown = excerpt(question.get("question"))
            yield Rejected(source, error.rule, excerpt(error.reason), shown)
        except LeftOut as error:
            yield str(error)


def load_chunks(context: StageContext, outcomes: Iterable[object]) -> Chunks:
    """The chunks of the gold documents that the corpus has; an entry for each such document."""
    wanted = sorted(
        {
            evidence.doc_id
            for outcome in outcomes
            if isinstance(outcome, ImportedQuestion)
            for evidence in outcome.evidence
        }
    )
    where = "doc_id IN (SELECT unnest(?))"
    known = context.dataset("documents").rows(where, ["doc_id"], [wanted])
    chunks: dict[str, list[tuple[str, Span]]] = {row["doc_id"]: [] for row in known}
    for row in context.dataset("chunks").rows(where, parameters=[wanted]):
        if row["doc_id"] in chunks:
            span = (row["char_start"], row["char_end"])
            chunks[row["doc_id"]].append((row["chunk_id"], span))
    return chunks


def question_row(
    question: ImportedQuestion, chunks: Chunks, source: str
) -> dict[str, Any] | Rejected:
    """The row but for its split, or why the corpus does not hold its evidence."""
    for evidence in question.evidence:
        if evidence.doc_id not in chunks:
            return Rejected(
                question.source,
                "gold_document_missing",
                f"the passage '{excerpt(evidence.title)}' is not in documents",
                excerpt(question.question),
            )
    doc_ids = [evidence.doc_id for evidence in question.evidence]
    return {
        "question_id": content_id(question.question, *doc_ids),
        "question": question.question,
        "answer": question.answer,
        "aliases": list(question.aliases),
        "entities": list(question.entities),
        "relations": [],
        "gold_doc_ids": doc_ids,
        "gold_chunk_ids": [
            chunk_id
            for evidence in question.evidence
            for chunk_id in gold_chunks(evidence, chunks[evidence.doc_id])
        ],
        "hops": question.hops,
        "task_type": question.task_type,
        "metric": "token_f1",
        "source": source,
        "source_id": question.source_id,
        "wording": WORDING,
    }


def gold_chunks(evidence: Evidence, chunks: Sequence[tuple[str, Span]]) -> list[str]:
    """The chunks that overlap the evidence, in the order of the text; all, if it has no spans."""
    return [
        chunk_id
        for chunk_id, (start, end) in chunks
        if not evidence.spans or any(start < stop and end > begin for begin, stop in evidence.spans)
    ]
