"""The panel: one row per candidate and dimension, with a value or a reason for none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from schemas.errors import UserError
from stages.runtime.variant import validate
from tests.unit.stages.harness import data_bytes, run_stage
from tests.unit.stages.library import QUESTIONS, put_candidates, put_library

VALUES: dict[str, Any] = {
    "kind": "panel",
    "judges": {
        "outcome": {"kind": "outcome"},
        "entities": {"kind": "entity_recall", "boundary": "word", "group": "none"},
        "citations": {"kind": "citation", "beta": 1.0, "duplicates": "penalise"},
        "form": {"kind": "format"},
    },
    "prompt": "plain",
}
TEXTS = [
    (0, "<think> x </think> Paris is in France [4]. Answer: Paris", "stop"),
    (0, "<think> x </think> Paris [1][4]. Answer: Rome", "stop"),
    (1, "<think> x </think> Paris is in France [4]. Answer: Paris", "length"),
    (4, "no thinking. Answer: Paris", "stop"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put_library(tmp_path)
    return tmp_path


def test_one_row_per_candidate_and_dimension(folder: Path) -> None:
    ids = put_candidates(folder, TEXTS)
    ran = run_stage(folder, "judge", VALUES)
    rows = {(row["candidate_id"], row["dimension"]): row for row in ran.rows("judgments")}
    assert set(rows) == {(i, dimension) for i in ids for dimension in VALUES["judges"]}
    found = [[(rows[i, d]["value"], rows[i, d]["status"]) for d in VALUES["judges"]] for i in ids]
    # The gold chunk is [4] in the long view; precision 1/2 and recall 1 give F1 = 2/3.
    assert found[0] == [(1.0, "ok")] * 4
    assert [value for value, _ in found[1]] == pytest.approx([0.0, 0.5, 2 / 3, 1.0])
    assert found[2] == [(0.0, "ill_formed:truncated")] * 4
    assert found[3] == [(0.0, "ill_formed:no_think_end")] * 4
    assert {row["judge"] for row in rows.values() if row["dimension"] == "form"} == {"format"}
    assert ran.accounting("judgments") == {"in": 16, "out": 16, "dropped": {}, "quarantined": {}}
    assert ran.metrics["ill_formed"] == 0.5
    assert ran.metrics["judges_failed"] == 0
    assert ran.metrics["mean_outcome"] == 0.25


def test_a_prompt_that_asks_for_no_thinking(folder: Path) -> None:
    ids = put_candidates(folder, TEXTS)
    ran = run_stage(folder, "judge", {**VALUES, "prompt": "direct"})
    rows = {(row["candidate_id"], row["dimension"]): row for row in ran.rows("judgments")}
    assert [rows[ids[i], "form"]["status"] for i in range(4)] == [
        "ok", "ok", "ill_formed:truncated", "ok"
    ]  # fmt: skip
    assert rows[ids[3], "outcome"]["value"] == 1.0


def test_a_judge_without_reference_gives_a_status_and_no_value(folder: Path) -> None:
    """A question without rubric has no entities to look for."""
    from tests.unit.stages.harness import put

    put(folder, "rubrics", [{
        "question_id": QUESTIONS[5], "position": 0, "kind": "entity", "criterion": "named",
        "target": "Paris", "weight": 1.0, "evidence_chunk_ids": [],
    }])  # fmt: skip
    put_candidates(folder, TEXTS[:1])
    ran = run_stage(folder, "judge", VALUES)
    rows = {row["dimension"]: row for row in ran.rows("judgments")}
    assert (rows["entities"]["value"], rows["entities"]["status"]) == (None, "failed:no_reference")
    assert rows["outcome"]["status"] == "ok"
    assert ran.metrics["judges_failed"] == 1
    assert "mean_entities" not in ran.metrics


def test_a_candidate_that_nothing_can_judge_is_never_lost_in_silence(folder: Path) -> None:
    from tests.unit.stages.harness import put
    from tests.unit.stages.library import context_row

    put_candidates(folder, TEXTS)
    put(folder, "contexts", [context_row(0, "long"), context_row(1, "long")])
    with pytest.raises(RuntimeError, match="row accounting is wrong: 16 in, but 12 out"):
        run_stage(folder, "judge", VALUES)


def test_repeatable(folder: Path) -> None:
    put_candidates(folder, TEXTS)
    first = data_bytes(run_stage(folder, "judge", VALUES), "judgments")
    assert data_bytes(run_stage(folder, "judge", VALUES), "judgments") == first


def test_no_judge_and_an_unknown_one() -> None:
    with pytest.raises(UserError, match=r"judge\.judges"):
        validate("judge", VALUES | {"judges": {}})
    with pytest.raises(UserError) as caught:
        validate("judge", VALUES | {"judges": {"a": {"kind": "reward_model"}}})
    assert caught.value.allowed == [
        "citation", "entity_recall", "format", "outcome", "pairwise_lm", "rubric_lm", "yes_no",
    ]  # fmt: skip


def test_a_judge_scores_a_candidate_by_itself() -> None:
    judges = {"entities": {"kind": "entity_recall", "boundary": "word", "group": "max"}}
    with pytest.raises(UserError, match="it takes group: none, not max"):
        validate("judge", VALUES | {"judges": judges})
