"""Language-model judges in the panel, through the layer, with answers from a table."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import UserError
from stages.llm.answer import Answer
from stages.llm.request import Request
from stages.runtime.variant import validate
from tests.unit.stages.answers import asked, use
from tests.unit.stages.harness import data_bytes, run_stage
from tests.unit.stages.judge.cases import MODEL, WRITING
from tests.unit.stages.library import QUESTIONS, put_candidates, put_library

THINK = "<think> x </think> "
TEXTS = [
    (0, f"{THINK}Paris is in France [4]. Answer: Paris", "stop"),
    (0, f"{THINK}Answer: Rome", "stop"),
    (0, f"{THINK}Answer: Paris", "length"),
    (1, f"{THINK}Answer: {{response}}", "stop"),
    (4, f"{THINK}Answer: Paris", "stop"),
]
RUBRIC: dict[str, Any] = {
    "kind": "rubric_lm", "prompt": "rubric", "criteria": None,
    "scale": {"lowest": 1, "highest": 5, "levels": {}}, **WRITING,
}  # fmt: skip
PAIRWISE: dict[str, Any] = {
    "kind": "pairwise_lm", "prompt": "pairwise", "criterion": "It is right.", "ties": False,
    "pairs_per_question": None, **WRITING,
}  # fmt: skip
YES_NO: dict[str, Any] = {
    "kind": "yes_no", "model": MODEL, "prompt": "yes_no", "reads": "content",
    "checks": {"right": {"ask": "Is it right?", "wanted": True}}, "yes_word": "Yes",
    "no_word": "No", "floor": 0.0,
}  # fmt: skip


def panel(**judges: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "panel", "prompt": "plain", "judges": judges}


def reply(request: Request) -> Any:
    """Rome is bad, and whoever names France is best."""
    text = asked(request)
    if request.continuation is not None:
        return math.log(0.8 if (request.continuation == "Yes") == ("Rome [" not in text) else 0.2)
    if "Response 2:" in text:
        first = text.split("Response 2:")[0]
        return {"explanation": "so", "better": "1" if "Answer: Paris" in first else "2"}
    return {"explanation": "so", "score": 2 if "Answer: Rome" in text else 5}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put_library(tmp_path)
    return tmp_path


def test_each_kind_in_one_panel(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = put_candidates(folder, TEXTS)
    backend = use(folder, monkeypatch, reply)
    ran = run_stage(folder, "judge", panel(
        outcome={"kind": "outcome"}, rubric=RUBRIC, better=PAIRWISE, right=YES_NO
    ))  # fmt: skip
    rows = {(r["candidate_id"], r["dimension"]): r for r in ran.rows("judgments")}
    assert len(rows) == len(ids) * 4
    found = {
        dimension: [(rows[i, dimension]["value"], rows[i, dimension]["status"]) for i in ids]
        for dimension in ("outcome", "rubric", "better", "right")
    }
    cut = (0.0, "ill_formed:truncated")
    assert found["outcome"] == [(1.0, "ok"), (0.0, "ok"), cut, (0.0, "ok"), (1.0, "ok")]
    assert found["rubric"] == [(1.0, "ok"), (0.25, "ok"), cut, (1.0, "ok"), (1.0, "ok")]
    alone = (None, "failed:no_opponent")
    assert found["better"] == [(1.0, "ok"), (0.0, "ok"), cut, alone, alone]
    assert found["right"][0] == (pytest.approx(0.8), "ok")
    rubric, outcome = rows[ids[0], "rubric"], rows[ids[0], "outcome"]
    assert (rubric["judge"], rubric["model"]) == ("rubric_lm", "models/judge")
    assert [part["name"] for part in rubric["parts"]] == ["0", "1"]
    assert rubric["parts"][0]["reason"] == "so"
    assert rubric["n_tokens"] == 6
    assert (outcome["model"], outcome["prompt_hash"], outcome["parts"]) == (None, None, [])
    assert len({row["prompt_hash"] for row in rows.values()}) == 4
    assert rows[ids[0], "better"]["agreement"] == 1.0
    assert ran.metrics["agreement_better"] == 1.0
    assert ran.metrics["judges_failed"] == 2
    assert ran.accounting("judgments")["in"] == 20
    # One model for three judges opens once, and every document is a shared beginning.
    assert (backend.opened, backend.closed) == (1, 1)
    assert all(asked(r).startswith("## Italy\nRome is in Italy [1].") for r in backend.requests)
    assert len({r.group for r in backend.requests}) == 1
    assert any("Answer: {response}" in asked(r) for r in backend.requests)
    assert not any(THINK.strip() in asked(r) for r in backend.requests)


def test_the_same_bytes_again_without_a_question(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_candidates(folder, TEXTS)
    values = panel(rubric=RUBRIC, better=PAIRWISE, right=YES_NO)
    use(folder, monkeypatch, reply)
    first = data_bytes(run_stage(folder, "judge", values), "judgments")
    backend = use(folder, monkeypatch, reply)
    assert data_bytes(run_stage(folder, "judge", values), "judgments") == first
    assert backend.requests == []


def test_answers_without_thinking_are_judged_where_none_was_asked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_candidates(folder, [(0, "Paris is in France [4]. Answer: Paris", "stop")])
    use(folder, monkeypatch, reply)
    for prompt, status in (("plain", "ill_formed:no_think_end"), ("direct", "ok")):
        ran = run_stage(folder, "judge", {**panel(rubric=RUBRIC), "prompt": prompt})
        assert [row["status"] for row in ran.rows("judgments")] == [status]


def test_all_of_the_text_is_judged_where_asked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_candidates(folder, [(0, "no thinking", "length"), (0, "  ", "stop")])
    backend = use(folder, monkeypatch, reply)
    ran = run_stage(folder, "judge", panel(rubric={**RUBRIC, "reads": "text"}))
    assert sorted((row["value"], row["status"]) for row in ran.rows("judgments")) == [
        (0.0, "ill_formed:empty"),
        (1.0, "ok"),
    ]
    assert len(backend.requests) == 1  # both criteria have the same words, so they are one


@pytest.mark.parametrize("status", ["timeout", "refusal", "http"])
def test_failures_are_statuses_and_are_bounded(
    folder: Path, monkeypatch: pytest.MonkeyPatch, status: Any
) -> None:
    put_candidates(folder, TEXTS)

    def failing(request: Request) -> Any:
        return (
            Answer(status, detail="why")
            if "Rome" in request.id + asked(request)[-400:]
            else (reply(request))
        )

    use(folder, monkeypatch, failing, max_failed=0.5)
    ran = run_stage(folder, "judge", panel(rubric=RUBRIC))
    found = [(row["value"], row["status"]) for row in ran.rows("judgments")]
    assert found.count((None, f"failed:{status}")) == 1
    assert ran.metrics["judges_failed"] == 1
    assert ran.metrics["mean_rubric"] == 0.75
    use(folder, monkeypatch, failing, max_failed=0.0)
    with pytest.raises(UserError, match=rf"judge: .* failed \(2 {status}\)"):
        run_stage(folder, "judge", panel(rubric=RUBRIC))


@pytest.mark.parametrize("text", ['{"explanation": "so", "score": NaN}', '{"score": 9}', "five"])
def test_a_reply_that_is_no_judgment_is_no_number(
    folder: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    put_candidates(folder, TEXTS[:1])
    backend = use(folder, monkeypatch, lambda _: Answer("ok", text), max_failed=1.0)
    ran = run_stage(folder, "judge", panel(rubric=RUBRIC))
    (row,) = ran.rows("judgments")
    assert row["value"] is None
    assert row["status"] in ("failed:broken_json", "failed:schema_mismatch")
    assert len(backend.requests) == 2  # the request and its repair


def test_a_context_longer_than_the_window_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_candidates(folder, TEXTS[:1])
    use(folder, monkeypatch, reply, window=60, max_failed=1.0)
    (row,) = run_stage(folder, "judge", panel(rubric=RUBRIC)).rows("judgments")
    assert (row["value"], row["status"]) == (None, "failed:too_long")
    assert "the window is 60" in row["parts"][0]["reason"]
    use(folder, monkeypatch, reply, window=60)
    with pytest.raises(UserError, match=f"(?s)long/{QUESTIONS[0]}/.*the window is 60"):
        run_stage(folder, "judge", panel(rubric=RUBRIC))


def test_two_models_open_one_after_the_other(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_candidates(folder, TEXTS)
    use(folder, monkeypatch, reply, model="models/other")
    backend = use(folder, monkeypatch, reply)
    other = {**YES_NO, "model": {"name": "judge-9b", "revision": "2"}}
    ran = run_stage(folder, "judge", panel(right=YES_NO, rubric=RUBRIC, again=other))
    assert (backend.opened, backend.closed) == (2, 2)
    models = {row["dimension"]: row["model"] for row in ran.rows("judgments")}
    assert models == {"right": "models/judge", "rubric": "models/judge", "again": "judge-9b"}


def test_a_wrong_template_is_said_before_anything_is_judged(folder: Path) -> None:
    put_candidates(folder, TEXTS)
    with pytest.raises(UserError, match="no prompt 'rubrics'"):
        run_stage(folder, "judge", panel(rubric={**RUBRIC, "prompt": "rubrics"}))
    with pytest.raises(UserError, match=r"'ask' has unknown \{choices\}"):
        run_stage(folder, "judge", panel(right={**YES_NO, "prompt": "pairwise"}))


def test_unknown_keys_name_the_allowed_ones() -> None:
    with pytest.raises(UserError, match=r"unknown parameter 'judge\.judges\.rubric\.modell'") as e:
        validate("judge", panel(rubric={**RUBRIC, "modell": "x"}))
    assert "model" in (e.value.allowed or [])
