"""Examples picked by a stated rule, failures included, with everything the model was shown.

The rule for test questions: by whether the warm-up model and the policy were right in their first
sample there are four kinds; of each kind the first two questions by id. Ids are content hashes, so
their order says nothing about the question. Missing kinds are filled up with the next ids.

Long contexts are cut: every gold chunk is shown, other text up to a limit, and each cut says how
much it left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.report.facts import Row, Workspace
from stages.llm.library import load_documents
from stages.llm.prompts import Document, cite

ITEMS, ROLLOUTS = 8, 4
RULE = (
    "By whether the warm-up model and the policy were right in their first sample, test questions "
    "are of four kinds; shown are the first two of each kind by question id. Ids are content "
    "hashes, so the order is arbitrary, and nobody chose. The kinds are shown in equal number, "
    "not in proportion: their counts are given."
)
_DOCUMENT_CHARS, _CHUNK_CHARS, _ANSWER_CHARS, _DOCUMENTS = 700, 2000, 3000, 60


@dataclass(frozen=True)
class Segment:
    """A piece of a document with its citation marker; `cut` says what was left out instead."""

    text: str
    gold: bool = False
    cut: str = ""


@dataclass(frozen=True)
class ShownDocument:
    title: str
    role: str
    segments: tuple[Segment, ...]


@dataclass(frozen=True)
class Answer:
    system: str
    text: str
    status: str
    reward: float | None
    parts: dict[str, float | None]


@dataclass(frozen=True)
class Sample:
    question_id: str
    kind: str
    question: str
    answer: str
    aliases: tuple[str, ...]
    chain: tuple[tuple[str, str], ...]
    """(relation, entity) in the order of the walk; the relation may be empty."""
    hops: int
    n_tokens: int
    budget_tokens: int
    documents: tuple[ShownDocument, ...]
    documents_left_out: int
    answers: tuple[Answer, ...]


@dataclass(frozen=True)
class Rollout:
    number: int
    text: str
    status: str
    reward: float | None
    advantage: float | None
    parts: dict[str, float]


@dataclass(frozen=True)
class Group:
    """The first rollouts of one training group."""

    step: int
    question: str
    answer: str
    size: int
    mean: float | None
    rollouts: tuple[Rollout, ...]


def samples(workspace: Workspace) -> tuple[list[Sample], dict[str, int]]:
    """The samples, and how many test questions are of each kind."""
    needed = ("evaluations", "questions", "contexts", "documents", "chunks")
    if not workspace.has(*needed):
        return [], {}
    kinds = _kinds(workspace)
    counts = {row["kind"]: int(row["n"]) for row in kinds if row["place"] == 1}
    chosen = [row for row in kinds if row["place"] <= ITEMS // 4]
    rest = sorted((r for r in kinds if r["place"] > ITEMS // 4), key=lambda r: r["question_id"])
    chosen += rest[: max(0, ITEMS - len(chosen))]
    return [_sample(workspace, row) for row in chosen], counts


def _kinds(workspace: Workspace) -> list[Row]:
    return workspace.query(
        """
        WITH first AS (
            SELECT question_id,
                   max(value) FILTER (system = 'warmup') >= 1 AS warmup,
                   max(value) FILTER (system = 'policy') >= 1 AS policy
            FROM evaluations WHERE measure = ? AND sample = 0 AND system IN ('warmup', 'policy')
            GROUP BY question_id
        ), named AS (
            SELECT question_id, CASE
                WHEN warmup AND policy THEN 'both right' WHEN policy THEN 'only the policy right'
                WHEN warmup THEN 'only the warm-up right' ELSE 'both wrong' END AS kind
            FROM first
        ), placed AS (
            SELECT *, row_number() OVER (PARTITION BY kind ORDER BY question_id) AS place,
                   count(*) OVER (PARTITION BY kind) AS n
            FROM named
        )
        SELECT * FROM placed WHERE place <= ? ORDER BY place, kind
        """,
        workspace.outcome_measure(),
        ITEMS,
    )


def _sample(workspace: Workspace, row: Row) -> Sample:
    question_id = row["question_id"]
    view = (workspace.params.get("evaluate") or {}).get("view", "long")
    [question] = workspace.query("SELECT * FROM questions WHERE question_id = ?", question_id)
    contexts = workspace.query(
        "SELECT * FROM contexts WHERE question_id = ? ORDER BY (view = ?) DESC LIMIT 1",
        question_id, view,
    )  # fmt: skip
    context: Row = contexts[0] if contexts else {"documents": [], "n_tokens": 0, "budget_tokens": 0}
    entries = context["documents"]
    library = load_documents(
        workspace.datasets["documents"], workspace.datasets["chunks"],
        [entry["doc_id"] for entry in entries],
    )  # fmt: skip
    gold = frozenset(question["gold_chunk_ids"])
    shown, left_out = [], 0
    for i, (entry, document, markers) in enumerate(_in_order(entries, library)):
        if i < _DOCUMENTS or entry["role"] == "gold":
            shown.append(ShownDocument(document.title, entry["role"],
                                       tuple(segments(document, markers, gold))))  # fmt: skip
        else:
            left_out += 1
    entities, relations = question["entities"], question["relations"]
    words = relations if len(relations) == len(entities) else [""] * len(entities)
    return Sample(
        question_id, row["kind"], question["question"], question["answer"],
        tuple(question["aliases"]), tuple(zip(words, entities, strict=True)), question["hops"],
        context["n_tokens"], context["budget_tokens"], tuple(shown), left_out,
        tuple(_answers(workspace, question_id)),
    )  # fmt: skip


def _in_order(
    entries: Sequence[Row], library: Mapping[str, Document]
) -> Iterator[tuple[Row, Document, list[int]]]:
    """Documents in prompt order with the markers of their chunks, numbered as in the prompt."""
    marker = 1
    for entry in entries:
        document = library[entry["doc_id"]]
        yield entry, document, list(range(marker, marker + len(document.chunks)))
        marker += len(document.chunks)


def segments(document: Document, markers: Sequence[int], gold: frozenset[str]) -> Iterator[Segment]:
    """The document's text with citation markers; long stretches without gold are cut."""
    end = shown = chunks = chars = 0
    for chunk, marker in zip(document.chunks, markers, strict=True):
        text = cite(document.chunk_text(chunk), marker)
        between = document.text[end : chunk.char_start]
        end = chunk.char_end
        is_gold = chunk.chunk_id in gold
        if not is_gold and shown + len(text) > _DOCUMENT_CHARS:
            chunks, chars = chunks + 1, chars + len(text)
            continue
        if chunks:
            yield _cut(chunks, chars)
            chunks = chars = 0
        if between:
            yield Segment(between)
        yield Segment(_short(text, _CHUNK_CHARS), is_gold)
        shown += len(text)
    if chunks:
        yield _cut(chunks, chars)
    elif end < len(document.text):
        yield Segment(document.text[end:])


def _cut(chunks: int, chars: int) -> Segment:
    return Segment("", cut=f"{chunks:,} more chunk{'s' * (chunks > 1)}, {chars:,} characters")


def _short(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[:limit]} … ({len(text) - limit:,} more characters)"


def _answers(workspace: Workspace, question_id: str) -> list[Answer]:
    rows = workspace.query(
        "SELECT system, measure, value, status, text FROM evaluations WHERE question_id = ? AND "
        "sample = 0 AND system IN ('warmup', 'policy', 'blind') ORDER BY system, measure",
        question_id,
    )
    answers = []
    for system, label in (("warmup", "Warm-up"), ("policy", "Policy"),
                          ("blind", "Policy, gold documents removed")):  # fmt: skip
        found = {row["measure"]: row for row in rows if row["system"] == system}
        if "reward" in found:
            head = found.pop("reward")
            parts = {measure: row["value"] for measure, row in found.items()}
            text = _short(head["text"] or "", _ANSWER_CHARS)
            answers.append(Answer(label, text, head["status"], head["value"], parts))
    return answers


def rollout_group(workspace: Workspace) -> Group | None:
    """Of the last step's groups whose rewards differ, the first by question id; else the first."""
    if not workspace.has("rollouts", "questions"):
        return None
    groups = workspace.query(
        "SELECT step, question_id, count(*) AS size, avg(reward) AS mean FROM rollouts "
        "WHERE step = (SELECT max(step) FROM rollouts) GROUP BY step, question_id "
        "ORDER BY coalesce(stddev_pop(reward), 0) < 1e-9, question_id LIMIT 1"
    )
    if not groups:
        return None
    group = groups[0]
    rows = workspace.query(
        "SELECT * FROM rollouts WHERE step = ? AND question_id = ? ORDER BY sample LIMIT ?",
        group["step"], group["question_id"], ROLLOUTS,
    )  # fmt: skip
    asked = workspace.query(
        "SELECT question, answer FROM questions WHERE question_id = ?", group["question_id"]
    )
    question: dict[str, Any] = asked[0] if asked else {"question": "(not in questions)",
                                                       "answer": "–"}  # fmt: skip
    return Group(
        group["step"], question["question"], question["answer"], group["size"], group["mean"],
        tuple(
            Rollout(r["sample"], _short(r["text"], _ANSWER_CHARS), r["status"], r["reward"],
                    r["advantage"], dict(r["parts"]))
            for r in rows
        ),
    )  # fmt: skip
