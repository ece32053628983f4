from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import UserError
from stages.rubrics.gold_entity_chain import rubric
from stages.runtime.variant import validate
from tests.unit.stages.harness import data_bytes, put, question, run_stage

NAMES = st.lists(st.sampled_from(["Ann", "Rome", "Italy", "Euro"]), min_size=1, max_size=6)
CHUNKS = st.lists(st.sampled_from(["c1", "c2", "c3", "c4"]), min_size=1, unique=True)


@given(entities=NAMES, chunks=CHUNKS, documents=st.integers(1, 4))
def test_each_entity_once_with_equal_weights(
    entities: list[str], chunks: list[str], documents: int
) -> None:
    gold = [f"d{n}" for n in range(documents)]
    rows = rubric(question("x", gold, entities=entities, gold_chunk_ids=chunks))
    assert [row["target"] for row in rows] == list(dict.fromkeys(entities))
    assert [row["position"] for row in rows] == list(range(len(rows)))
    assert sum(row["weight"] for row in rows) == pytest.approx(1)
    assert len({row["weight"] for row in rows}) == 1
    for row in rows:
        assert row["evidence_chunk_ids"]
        assert set(row["evidence_chunk_ids"]) <= set(chunks)
        assert row["target"] in row["criterion"]


def test_evidence_is_the_chunk_of_the_hop() -> None:
    row = question("x", ["d1", "d2"], entities=["Rome", "Italy"], gold_chunk_ids=["c1", "c2"])
    assert [made["evidence_chunk_ids"] for made in rubric(row)] == [["c1"], ["c2"]]


@pytest.mark.parametrize(
    ("documents", "entities", "chunks"),
    [
        (["d1", "d2"], ["A", "B"], ["c1", "c2", "c3"]),
        # One document has two gold chunks: three chunks, but not one for each entity.
        (["d1", "d2"], ["A", "B", "C"], ["c1", "c2", "c3"]),
        (["d1", "d2"], ["A", "A"], ["c1", "c2"]),
    ],
)
def test_where_nothing_corresponds_all_gold_chunks_are_evidence(
    documents: list[str], entities: list[str], chunks: list[str]
) -> None:
    rows = rubric(question("x", documents, entities=entities, gold_chunk_ids=chunks))
    assert all(row["evidence_chunk_ids"] == chunks for row in rows)


def test_stage(tmp_path: Path) -> None:
    rows = [question(f"q{n}", ["d"], "test" if n > 7 else "train", entities=["A", f"B{n}"])
            for n in range(10)]  # fmt: skip
    put(tmp_path, "questions", rows)
    ran = run_stage(tmp_path, "rubrics", {"kind": "gold_entity_chain"})
    assert ran.metrics == {"questions": 10, "criteria_per_question": 2.0}
    assert ran.accounting("rubrics") == {"in": 20, "out": 20, "quarantined": {}, "dropped": {}}
    before = data_bytes(ran, "rubrics")
    put(tmp_path, "questions", rows[::-1])
    again = run_stage(tmp_path, "rubrics", {"kind": "gold_entity_chain"})
    assert data_bytes(again, "rubrics") == before


def test_an_entity_without_a_name_is_quarantined(tmp_path: Path) -> None:
    rows = [question(f"q{n}", ["d"], "test" if n > 30 else "train") for n in range(40)]
    rows[0]["entities"] = [" ", "end"]
    put(tmp_path, "questions", rows)
    ran = run_stage(tmp_path, "rubrics", {"kind": "gold_entity_chain"})
    assert ran.accounting("rubrics")["quarantined"] == {"target_not_empty": 1}
    assert ran.accounting("rubrics")["out"] == 40


def test_wrong_parameters() -> None:
    with pytest.raises(UserError, match=r"unknown parameter 'rubrics\.weights'"):
        validate("rubrics", {"kind": "gold_entity_chain", "weights": 1})
