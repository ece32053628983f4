from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from schemas.errors import UserError
from schemas.ids import content_id
from stages.runtime.variant import validate
from tests.unit.stages.corpus.conftest import Ran
from tests.unit.stages.harness import data_bytes, put, put_corpus, question, run_stage

COMMON: dict[str, Any] = {"budgets": [60, 90], "prompt": "plain", "max_over_budget": 0.1, "seed": 0}
VARIANTS: dict[str, dict[str, Any]] = {
    "tiered": {**COMMON, "kind": "tiered", "top_k": 5, "opens": 2, "filler": 99},
    "random": {**COMMON, "kind": "random", "documents": 99},
}
PASSAGES = [
    (f"T{n}", f"The colour of T{n} is c{n % 5}. It is like T{n + 1} and so on.") for n in range(40)
]
IDS = [content_id(*passage) for passage in PASSAGES]
SPLITS = ["train"] * 24 + ["validation"] * 4 + ["test"] * 8


def questions() -> list[dict[str, Any]]:
    """One question over each of 36 documents and, for every other, a second gold document."""
    rows = []
    for n, split in enumerate(SPLITS):
        gold = [IDS[n], IDS[n ^ 1]] if n % 2 else [IDS[n]]
        rows.append(question(f"T{n}", gold, split, entities=[f"T{n}", f"c{n % 5}"][: len(gold)]))
    return rows


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("distractors")
    put_corpus(folder, PASSAGES)
    return folder


def run(folder: Path, kind: str, rows: list[dict[str, Any]] | None = None, **values: Any) -> Ran:
    put(folder, "questions", questions() if rows is None else rows)
    return run_stage(folder, "distractors", {**VARIANTS[kind], **values})


@pytest.mark.parametrize("kind", VARIANTS)
def test_train_contexts_hold_no_held_out_gold(kind: str, workspace: Path) -> None:
    ran = run(workspace, kind, budgets=[600])  # room for all documents
    gold: dict[str, set[str]] = {"train": set(), "validation": set(), "test": set()}
    for row in questions():
        gold[row["split"]].update(row["gold_doc_ids"])
    hidden = {"train": gold["validation"] | gold["test"], "validation": gold["test"],
              "test": set()}  # fmt: skip
    seen: dict[str, set[str]] = {split: set() for split in gold}
    for row in ran.rows("contexts"):
        seen[row["split"]] |= {entry["doc_id"] for entry in row["documents"]}
    for split, documents in seen.items():
        assert not documents & hidden[split]
        assert documents == set(IDS) - hidden[split]  # and nothing else is kept away


@pytest.mark.parametrize("kind", VARIANTS)
def test_two_runs_give_the_same_bytes(kind: str, workspace: Path) -> None:
    first = data_bytes(run(workspace, kind), "contexts", "traces")
    second = data_bytes(run(workspace, kind, questions()[::-1]), "contexts", "traces")
    assert first == second
    assert len(first) >= 8
    other = data_bytes(run(workspace, kind, seed=1), "contexts")
    assert any(first[name] != content for name, content in other.items())


def test_traces_and_roles_agree(workspace: Path) -> None:
    ran = run(workspace, "tiered", budgets=[250])
    opened: dict[str, set[str]] = {}
    returned: dict[str, set[str]] = {}
    for row in ran.rows("traces"):
        target = {"open": opened, "search": returned}.get(row["action"])
        if target is not None:
            target.setdefault(row["question_id"], set()).update(row["doc_ids"])
    roles = set()
    for row in ran.rows("contexts"):
        for entry in row["documents"]:
            roles.add(entry["role"])
            was_opened = entry["doc_id"] in opened[row["question_id"]]
            was_returned = entry["doc_id"] in returned[row["question_id"]]
            expected = "tier1" if was_opened else "tier2" if was_returned else "filler"
            assert entry["role"] in ("gold", expected)
    assert roles == {"gold", "tier1", "tier2", "filler"}
    assert 0 < ran.metrics["agent_gold_recall"] <= 1


def test_random_has_no_trace_and_only_filler(workspace: Path) -> None:
    ran = run(workspace, "random")
    assert ran.rows("traces") == []
    assert ran.accounting("traces")["in"] == 0
    roles = {entry["role"] for row in ran.rows("contexts") for entry in row["documents"]}
    assert roles == {"gold", "filler"}


@pytest.mark.parametrize("kind", VARIANTS)
def test_a_missing_gold_document_is_quarantined(kind: str, workspace: Path) -> None:
    lost = question("lost", [IDS[0], "gone"])
    ran = run(workspace, kind, [*questions(), lost])
    assert ran.accounting("contexts") == {
        "in": 74, "out": 72, "quarantined": {"gold_document_missing": 2}, "dropped": {},
    }  # fmt: skip
    assert ran.quarantine("contexts") == [
        ("gold_document_missing", f"question {lost['question_id']} ({view})", "What is lost?")
        for view in ("long", "short")
    ]


def long_question(count: int) -> list[dict[str, Any]]:
    return [question(f"long {n}", IDS[n : n + 8]) for n in range(count)]


@pytest.mark.parametrize("kind", VARIANTS)
def test_what_fits_no_budget_is_dropped(kind: str, workspace: Path) -> None:
    ran = run(workspace, kind, [*questions(), *long_question(2)])
    assert ran.accounting("contexts") == {
        "in": 76, "out": 72, "quarantined": {}, "dropped": {"gold_over_budget": 4},
    }  # fmt: skip
    assert ran.metrics["over_budget"] == 2
    assert ran.metrics["questions"] == 38


@pytest.mark.parametrize("kind", VARIANTS)
def test_too_many_over_budget_stop_the_stage(kind: str, workspace: Path) -> None:
    before = data_bytes(run(workspace, kind), "contexts")
    with pytest.raises(UserError) as raised:
        run(workspace, kind, [*questions(), *long_question(6)])
    for part in ("6 of 42 questions", "90 tokens", "distractors.budgets", "(now 0.1)"):
        assert part in str(raised.value)
    after = Ran(workspace, {})
    assert data_bytes(after, "contexts") == before  # what was published stays


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        ("tiered", {"budgets": []}, "at least 1"),
        ("tiered", {"opens": 0}, r"distractors\.opens"),
        ("random", {"top_k": 3}, r"unknown parameter 'distractors\.top_k'"),
        ("random", {"max_over_budget": 2}, r"distractors\.max_over_budget"),
    ],
)
def test_wrong_parameters(kind: str, values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        validate("distractors", {**VARIANTS[kind], **values})


def test_no_such_prompt(workspace: Path) -> None:
    with pytest.raises(UserError, match=r"(?s)no prompt template 'letter'.*allowed: .*plain"):
        run(workspace, "random", prompt="letter")
