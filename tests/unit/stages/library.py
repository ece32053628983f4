"""Questions with contexts and rubrics over a small corpus: what the later stages read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from schemas.contract import load_contract
from schemas.ids import content_id
from schemas.publish import publish
from schemas.write import DatasetWriter
from tests.unit.stages.harness import document_rows, put, put_corpus, question, words

PASSAGES = [
    ("France", "Paris is in France. France is old."),
    ("Italy", "Rome is in Italy. Italy is old."),
    ("Braces", "{question} is {context} \\1."),
]
DOCS = [row["doc_id"] for row in document_rows(PASSAGES)]
SPLITS = ("train", "train", "train", "validation", "test", "test")
QUESTIONS = [content_id("question", f"q{i}") for i in range(len(SPLITS))]


def context_row(number: int, view: str) -> dict[str, Any]:
    """The long view holds all documents, the gold one last; the short view only the gold one."""
    roles = [("tier1", DOCS[1]), ("filler", DOCS[2])] if view == "long" else []
    return {
        "question_id": QUESTIONS[number], "view": view, "split": SPLITS[number],
        "documents": [{"doc_id": doc, "role": role} for role, doc in [*roles, ("gold", DOCS[0])]],
        "n_gold": 1, "n_tokens": 20, "budget_tokens": 64,
        "gold_position": 1.0 if roles else 0.0,
        "hardest_tier": "tier1" if roles else "none", "order_seed": number,
    }  # fmt: skip


def put_library(folder: Path) -> None:
    """Six questions (three train, one validation, two test), each with two views and a rubric."""
    put_corpus(folder, PASSAGES)
    start, end = 0, len("Paris is in France.")
    gold = content_id(DOCS[0], start, end)
    assert words(PASSAGES[0][1][start:end]) == 5
    put(folder, "questions", (
        question(f"q{i}", [DOCS[0]], split=split, answer="Paris", gold_chunk_ids=[gold])
        for i, split in enumerate(SPLITS)
    ))  # fmt: skip
    put(folder, "contexts", (
        context_row(i, view) for i in range(len(SPLITS)) for view in ("long", "short")
    ))  # fmt: skip
    put(folder, "rubrics", (
        {
            "question_id": question_id, "position": i, "kind": "entity", "criterion": "named",
            "target": target, "weight": 0.5, "evidence_chunk_ids": [gold],
        }
        for question_id in QUESTIONS for i, target in enumerate(("France", "Paris"))
    ))  # fmt: skip


def put_candidates(folder: Path, texts: list[tuple[int, str, str]]) -> list[str]:
    """Candidates of the long view: (number of the question, text, finish reason). Their ids."""
    ids = []
    writer = DatasetWriter(load_contract("candidates"), folder / ".work" / "put" / "candidates")
    for sample, (number, text, finish_reason) in enumerate(texts):
        ids.append(content_id("candidate", sample))
        writer.add({
            "candidate_id": ids[-1], "question_id": QUESTIONS[number], "split": SPLITS[number],
            "view": "long", "model": "warmup", "sample": sample, "seed": 0, "text": text,
            "finish_reason": finish_reason, "n_prompt_tokens": 20, "n_tokens": 5,
            "prompt_hash": "0",
        })  # fmt: skip
    writer.finish(len(texts))
    publish(folder / ".work" / "put" / "candidates", folder / "data" / "candidates")
    return ids
