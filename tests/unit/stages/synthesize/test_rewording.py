"""New words for a walk's question: what they must name, what they must not, what then happens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import UserError
from stages.llm.answer import Answer
from stages.llm.request import Request
from stages.synthesize._rewording import Worded, defect, reworded
from tests.unit.stages.answers import asked, use
from tests.unit.stages.harness import data_bytes, put_corpus, run_stage
from tests.unit.stages.synthesize.test_kg_random_walk import VALUES as WALKS
from tests.unit.stages.synthesize.test_kg_random_walk import ring

VALUES: dict[str, Any] = {
    **WALKS,
    "kind": "kg_random_walk_lm",
    "rewording": {
        "model": {"folder": "models/writer"}, "prompt": "reword", "question_chars": 200,
        "sampling": {"temperature": 0.7, "top_p": 1.0, "max_new_tokens": 50},
        "on_failure": "drop", "seed": 1,
    },
}  # fmt: skip
QUESTION = Worded("1", "What is the currency of the country of Lyon?", "Lyon", ("France", "Euro"))
NAMES = st.sampled_from(["Lyon", "Lyon City", "Mexico", "Mexico City", "Euro", "The Hague"])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Which money do they use where LYON lies?", None),
        ("Which money do they use there?", "start_missing"),
        ("Which money do they use in Lyonnais?", "start_missing"),
        ("Do they pay with the Euro in Lyon?", "leaks_answer"),
        ("Which money is used in France, home of Lyon?", "leaks_entity"),
        ("What do Europeans pay with in Lyon?", None),
        ("?!", "no_text"),
        ("Lyon", "no_question"),
        ("The money of Lyon is old.", "no_question"),
        ("Lyon \ud800", "no_text"),
    ],
)
def test_names_tell(text: str, found: str | None) -> None:
    assert defect(text, QUESTION) == found


def test_a_name_inside_another_is_told_apart() -> None:
    inside = Worded("1", "", "Mexico City", ("Mexico",))
    assert defect("Of which country is Mexico City the capital?", inside) is None
    assert defect("Is Mexico City the capital of Mexico?", inside) == "leaks_answer"
    around = Worded("1", "", "Mexico", ("Mexico City",))
    assert defect("What is the capital of Mexico?", around) is None
    assert defect("Is Mexico City the capital of Mexico?", around) == "leaks_answer"


@given(st.lists(NAMES, min_size=1, max_size=3), NAMES, st.lists(NAMES, max_size=4))
def test_what_passes_names_the_start_and_no_entity(
    entities: list[str], start: str, words: list[str]
) -> None:
    """Where no name is part of another, passing means just that."""
    question = Worded("1", "", start, entities)
    text = "What of " + ", ".join(words) + "?"
    if defect(text, question) is None:
        assert start in text
        for entity in entities:
            if entity not in start and start not in entity:
                assert entity not in words


def test_no_two_questions_get_the_same_words() -> None:
    questions = [Worded(str(n), "", "Lyon", ("Euro",)) for n in range(3)]
    texts = ["What of Lyon?", "what of  LYON?", "Where is Lyon?"]
    answers = {q.id: Answer("ok", json.dumps({"question": t})) for q, t in
               zip(questions, texts, strict=True)}  # fmt: skip
    answers["3"] = Answer("timeout")
    questions.append(Worded("3", "", "Lyon", ("Euro",)))
    assert reworded(questions, answers) == {
        "0": ("What of Lyon?", "ok"),
        "1": (None, "duplicate_wording"),
        "2": ("Where is Lyon?", "ok"),
        "3": (None, "timeout"),
    }


def start_of(request: Request) -> str:
    return asked(request).split('Keep the name "')[1].split('"')[0]


def reply(request: Request) -> Any:
    start = start_of(request)
    if start.endswith("7"):
        return Answer("refusal", detail="no")
    steps = asked(request).split("Question: ")[1].count("next")
    return {"question": f"Which one comes {steps} places behind\n {start}?"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put_corpus(tmp_path, *ring(60))
    return tmp_path


def test_stage(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = run_stage(folder, "synthesize", WALKS)
    walks = {tuple(row["gold_doc_ids"]): row for row in plain.rows("questions")}
    backend = use(folder, monkeypatch, reply, model="models/writer", max_failed=1.0)
    ran = run_stage(folder, "synthesize", VALUES)
    rows = ran.rows("questions")
    accounting = ran.accounting("questions")
    refused = accounting["dropped"]["wording:refusal"]
    assert refused == ran.metrics["not_reworded"]["refusal"] > 0
    assert len(rows) == ran.metrics["reworded"] == len(walks) - refused
    assert len(backend.requests) == len(walks) == len({r.seed for r in backend.requests})
    for row in rows:
        before = walks[tuple(row["gold_doc_ids"])]
        assert row["question"].startswith(f"Which one comes {row['hops']} places behind E")
        changed = {key for key in row if row[key] != before[key]}
        assert changed == {"question", "question_id", "source", "wording"}
    first = data_bytes(ran, "questions")
    again = use(folder, monkeypatch, reply, model="models/writer", max_failed=1.0)
    assert data_bytes(run_stage(folder, "synthesize", VALUES), "questions") == first
    assert again.requests == []


def test_the_template_stays_where_asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = run_stage(folder, "synthesize", WALKS)
    before = {row["question_id"]: row for row in plain.rows("questions")}
    use(folder, monkeypatch, lambda _: Answer("timeout"), model="models/writer", max_failed=1.0)
    keep = {**VALUES, "rewording": {**VALUES["rewording"], "on_failure": "keep"}}
    ran = run_stage(folder, "synthesize", keep)
    assert {row["question_id"]: row for row in ran.rows("questions")} == before
    assert ran.metrics["not_reworded"] == {"timeout": len(before)}


def test_a_model_that_is_not_there_and_a_wrong_prompt(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no model at models/writer"):
        run_stage(folder, "synthesize", VALUES)
    own = tmp_path / "own.yaml"
    own.write_text("instruction: 'Reword {question} of {begin}'\n")
    values = {**VALUES, "rewording": {**VALUES["rewording"], "prompt": str(own)}}
    with pytest.raises(UserError, match=r"'instruction' has unknown \{begin\}"):
        run_stage(folder, "synthesize", values)
