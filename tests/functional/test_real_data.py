"""The benchmarks' real files through the data stages, by composed parameters, each stage in its
own process as `dvc.yaml` calls it. docs/real-data.md holds the counts; this holds the invariants.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from schemas.read import Dataset
from tests.functional.dags import Project
from tests.functional.forks import Forks

ROOT = Path(__file__).parents[2]
STAGES = ("corpus", "synthesize", "distractors", "rubrics")


class Workspace:
    """A project folder that shares the code, with its own conf/ and data."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT / "conf", folder / "conf")
        shutil.copytree(ROOT / "pipelines" / "hydra", folder / "pipelines" / "hydra")

    def compose(self, *overrides: str) -> None:
        self._run("longline", "params", "compose", *overrides)

    def run(self, *stages: str) -> dict[str, dict[str, Any]]:
        """Run the stages in order; their metrics by name."""
        for stage in stages:
            self._run("stages", stage)
        return {
            stage: json.loads((self.folder / "reports" / f"{stage}.json").read_text("utf-8"))
            for stage in stages
        }

    def rows(self, dataset: str, **columns: Any) -> list[dict[str, Any]]:
        return list(Dataset.open(self.folder / "data" / dataset).rows(**columns))

    def accounting(self, dataset: str) -> dict[str, Any]:
        accounting: dict[str, Any] = Dataset.open(self.folder / "data" / dataset).meta["accounting"]
        return accounting

    def _run(self, program: str, *arguments: str) -> None:
        Forks().start(Project(self.folder, {**os.environ}), program, *arguments).wait()


def check(workspace: Workspace, metrics: dict[str, dict[str, Any]]) -> None:
    """What holds for every benchmark and every way to questions."""
    for name in ("documents", "chunks", "triples", "questions", "contexts", "traces", "rubrics"):
        rows = workspace.accounting(name)
        lost = sum(rows["quarantined"].values()) + sum(rows["dropped"].values())
        assert rows["in"] == rows["out"] + lost
    documents = {row["doc_id"] for row in workspace.rows("documents", columns=["doc_id"])}
    chunks = {row["chunk_id"]: row["doc_id"] for row in workspace.rows("chunks")}
    questions = {row["question_id"]: row for row in workspace.rows("questions")}
    split_of: dict[str, str] = {}
    for row in questions.values():
        gold = row["gold_doc_ids"]
        assert set(gold) <= documents
        assert len(set(gold)) == len(gold)
        assert {chunks[chunk_id] for chunk_id in row["gold_chunk_ids"]} == set(gold)
        assert row["entities"][-1] == row["answer"]
        assert all(split_of.setdefault(doc_id, row["split"]) == row["split"] for doc_id in gold)
    contexts = workspace.rows("contexts")
    over = metrics["distractors"]["over_budget"]
    assert len(contexts) == 2 * (len(questions) - over)
    held_out = {doc_id for doc_id, split in split_of.items() if split != "train"}
    for row in contexts:
        roles = {entry["doc_id"]: entry["role"] for entry in row["documents"]}
        gold = questions[row["question_id"]]["gold_doc_ids"]
        assert {doc_id for doc_id, role in roles.items() if role == "gold"} == set(gold)
        assert row["n_tokens"] <= row["budget_tokens"]
        assert row["budget_tokens"] in (1024, 2048)
        assert row["split"] != "train" or not held_out & set(roles)
    assert {row["question_id"] for row in workspace.rows("rubrics")} == set(questions)


@pytest.mark.parametrize(
    ("kind", "documents", "hops"), [("hotpotqa", 994, {2}), ("musique", 1890, {2, 3, 4})]
)
def test_own_questions(
    kind: str, documents: int, hops: set[int], multihop: Path, tmp_path: Path
) -> None:
    workspace = Workspace(tmp_path)
    chosen = ["profile=passages", f"corpus={kind}", f"corpus.path={multihop}",
              "synthesize=import_qa"]  # fmt: skip
    workspace.compose(*chosen)
    metrics = workspace.run(*STAGES)
    check(workspace, metrics)
    assert metrics["corpus"]["documents"] == documents
    assert metrics["corpus"]["tokens"]["unknown"] == 0
    assert workspace.accounting("questions")["out"] == 100
    assert metrics["synthesize"]["questions"] == {"train": 70, "validation": 10, "test": 20}
    assert {row["hops"] for row in workspace.rows("questions")} == hops
    assert metrics["distractors"]["over_budget"] == 0
    assert metrics["distractors"]["agent_gold_recall"] > 0.85
    tiers = {row["hardest_tier"] for row in workspace.rows("contexts", where="view = 'long'")}
    assert tiers == {"tier1"}
    workspace.compose(*chosen, "distractors=random")
    check(workspace, workspace.run("distractors"))
    assert workspace.rows("traces") == []


def test_walks_over_the_openie_graph(multihop: Path, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.compose(
        "profile=passages", "corpus=musique", f"corpus.path={multihop}", "prompt=path",
        "synthesize.attempts=200", "size.questions={train: 60, validation: 10, test: 20}",
    )  # fmt: skip
    metrics = workspace.run(*STAGES)
    check(workspace, metrics)
    assert workspace.accounting("triples")["quarantined"].keys() == {
        "malformed_triple", "not_a_loop",
    }  # fmt: skip
    assert metrics["synthesize"]["questions"] == {"train": 60, "validation": 10, "test": 20}
    dropped = workspace.accounting("questions")["dropped"]
    assert dropped["dead_end"] > 0
    assert dropped["ambiguous_relation"] > 0
    for row in workspace.rows("questions"):
        assert row["question"].startswith("Starting from")
        assert 2 <= row["hops"] == len(row["relations"]) == len(row["gold_doc_ids"])
