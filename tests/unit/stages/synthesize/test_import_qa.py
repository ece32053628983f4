from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import UserError
from schemas.ids import content_id
from stages.benchmarks.hotpotqa import join_sentences
from stages.runtime.variant import validate
from stages.synthesize import _hotpotqa, _musique
from stages.synthesize._imported import Evidence, LeftOut, Unusable
from stages.synthesize.import_qa import WORDING, gold_chunks
from tests.unit.stages.corpus.conftest import Ran
from tests.unit.stages.harness import data_bytes, put_corpus, run_stage

Questions = list[dict[str, Any]]
VALUES: dict[str, Any] = {
    "kind": "import_qa", "path": "inputs", "questions": "q.json", "seed": 0,
    "splits": {"train": 0.7, "validation": 0.1, "test": 0.2},
}  # fmt: skip


def hotpot(name: str = "x", **values: Any) -> dict[str, Any]:
    return {
        "_id": f"id {name}", "question": f"Who made {name}?", "answer": f"Maker of {name}",
        "type": "bridge",
        "context": [
            [f"Noise {name}", ["Nothing here."]],
            [f"Work {name}", ["It is a work.", f" {name} was made by somebody.", " It is old."]],
            [f"Person {name}", ["Born long ago.", f" Known as Maker of {name}."]],
        ],
        "supporting_facts": [[f"Work {name}", 1], [f"Person {name}", 1]],
        **values,
    }  # fmt: skip


def musique(name: str = "x", **values: Any) -> dict[str, Any]:
    return {
        "id": f"2hop__{name}", "question": f"Where was the maker of {name} born?",
        "answer": f"Town {name}", "answer_aliases": [f"City {name}", "--", f"town {name}"],
        "answerable": True,
        "paragraphs": [
            {"idx": 0, "title": "Noise", "paragraph_text": f"Nothing about {name} here."},
            {"idx": 1, "title": f"P {name}", "paragraph_text": f"So. In Town {name} P {name} is."},
            {"idx": 2, "title": f"W {name}", "paragraph_text": f"Old. P {name} made it. Good."},
        ],
        "question_decomposition": [
            {"question": f"Who made {name}?", "answer": f"P {name}", "paragraph_support_idx": 2},
            {"question": "Where was #1 born?", "answer": f"Town {name}",
             "paragraph_support_idx": 1},
        ],
        **values,
    }  # fmt: skip


def passages_of(questions: Questions) -> list[tuple[str, str]]:
    found: dict[tuple[str, str], None] = {}
    for question in questions:
        for title, sentences in question.get("context", []):
            found[title, join_sentences(sentences) or ""] = None
        for item in question.get("paragraphs", []):
            found[item["title"], item["paragraph_text"]] = None
    return list(found)


def imported(folder: Path, form: str, given: Any, sound: Questions, **values: Any) -> Ran:
    """Import the questions `given` over a corpus of the passages of the `sound` ones."""
    put_corpus(folder, passages_of(sound))
    (folder / "inputs").mkdir(exist_ok=True)
    (folder / "inputs" / "q.json").write_text(json.dumps(given), encoding="utf-8")
    return run_stage(folder, "synthesize", {**VALUES, "format": form, **values})


def sound(form: str, count: int = 20) -> Questions:
    return [(hotpot if form == "hotpotqa" else musique)(f"N{number}") for number in range(count)]


def test_hotpotqa_row(tmp_path: Path) -> None:
    questions = sound("hotpotqa")
    ran = imported(tmp_path, "hotpotqa", questions, questions)
    (row,) = [row for row in ran.rows("questions") if row["source_id"] == "id N3"]
    by_title = {row["title"]: row for row in _documents(tmp_path)}
    gold = [by_title["Work N3"]["doc_id"], by_title["Person N3"]["doc_id"]]
    assert row["gold_doc_ids"] == gold
    assert row["hops"] == 2
    assert row["entities"] == ["Work N3", "Person N3", "Maker of N3"]
    assert _texts(tmp_path, row) == ["N3 was made by somebody.", "Known as Maker of N3."]
    assert row["question_id"] == content_id(row["question"], *gold)
    assert (row["metric"], row["source"], row["wording"]) == ("token_f1", "hotpotqa", WORDING)
    assert (row["task_type"], row["aliases"], row["relations"]) == ("multi_hop", [], [])
    assert ran.metrics["questions"] == {"train": 14, "validation": 2, "test": 4}
    assert ran.metrics["gold_documents"] == 40


def test_musique_row(tmp_path: Path) -> None:
    questions = sound("musique")
    ran = imported(tmp_path, "musique", questions, questions)
    (row,) = [row for row in ran.rows("questions") if row["source_id"] == "2hop__N3"]
    assert row["entities"] == ["P N3", "Town N3"]
    assert row["hops"] == 2
    assert _texts(tmp_path, row) == ["P N3 made it.", "In Town N3 P N3 is."]
    assert row["aliases"] == ["City N3"]
    assert row["answer"] == "Town N3"
    assert (row["metric"], row["source"], row["wording"]) == ("token_f1", "musique", WORDING)
    assert row["task_type"] == "multi_hop"


def test_comparison(tmp_path: Path) -> None:
    made = _hotpotqa.read_question(hotpot(type="comparison", answer="Work x"), "s")
    assert made.task_type == "comparison"
    # The page of the answer comes last, as the hop that reaches it; each entity stands once.
    assert [item.title for item in made.evidence] == ["Person x", "Work x"]
    assert made.entities == ("Person x", "Work x")


def test_facts_of_one_page_are_one_document() -> None:
    facts = [["Work x", 2], ["Person x", 0], ["Work x", 0]]
    made = _hotpotqa.read_question(hotpot(supporting_facts=facts), "s")
    work, person = made.evidence
    text = "It is a work. x was made by somebody. It is old."
    assert [text[start:end] for start, end in work.spans] == ["It is old.", "It is a work."]
    assert person.title == "Person x"
    assert made.hops == 2


def test_steps_on_one_paragraph_are_one_document() -> None:
    steps = [
        {"answer": "P x", "paragraph_support_idx": 2},
        {"answer": "P x", "paragraph_support_idx": 2},
        {"answer": "not to be found", "paragraph_support_idx": 2},
        {"answer": "Town x", "paragraph_support_idx": 1},
    ]
    made = _musique.read_question(musique(question_decomposition=steps), "s")
    assert [item.title for item in made.evidence] == ["W x", "P x"]
    assert made.hops == 4
    assert made.evidence[0].spans == ()  # one step needs the whole paragraph
    assert made.entities == ("P x", "not to be found", "Town x")


@pytest.mark.parametrize(
    ("text", "name", "mention"),
    [
        ("The annual Ann.", "Ann", "Ann"),
        ("An ANNUAL fair.", "ann", "ANN"),
        ("Costs $5 (or so).", "$5 (or so)", "$5 (or so)"),
        ("Nothing.", "Ann", None),
        ("Nothing.", " ", None),
    ],
)
def test_first_mention(text: str, name: str, mention: str | None) -> None:
    span = _musique.first_mention(text, name)
    assert (None if span is None else text[slice(*span)]) == mention


def test_the_whole_word_is_preferred() -> None:
    assert _musique.first_mention("annual Ann", "ann") == (7, 10)


@given(
    spans=st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), max_size=4),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6),
)
def test_gold_chunks(spans: list[tuple[int, int]], sizes: list[int]) -> None:
    ends = [sum(sizes[: n + 1]) for n in range(len(sizes))]
    chunks = [(f"c{n}", (end - size, end)) for n, (end, size) in enumerate(zip(ends, sizes))]  # noqa: B905
    evidence = Evidence("d", "t", tuple((start, start + size) for start, size in spans))
    characters = {c for start, end in evidence.spans for c in range(start, end)}
    expected = [
        name for name, (start, end) in chunks if not spans or characters & set(range(start, end))
    ]
    assert gold_chunks(evidence, chunks) == expected


@pytest.mark.parametrize(
    ("values", "rule"),
    [
        ({"question": None}, "malformed_question"),
        ({"question": " "}, "malformed_question"),
        ({"question": "half \ud800"}, "invalid_unicode"),
        ({"answer": ""}, "malformed_question"),
        ({"answer": "?!"}, "answer_not_scorable"),
        ({"type": "riddle"}, "malformed_question"),
        ({"type": ["bridge"]}, "malformed_question"),
        ({"_id": 7}, "malformed_question"),
        ({"supporting_facts": []}, "malformed_question"),
        ({"supporting_facts": None}, "malformed_question"),
        ({"supporting_facts": ["Work x"]}, "malformed_question"),
        ({"supporting_facts": [["Work x", "1"]]}, "malformed_question"),
        ({"supporting_facts": [["Work x", True]]}, "malformed_question"),
        ({"supporting_facts": [["Elsewhere", 0]]}, "supporting_title_not_in_context"),
        ({"supporting_facts": [["Work x", 3]]}, "supporting_sentence_out_of_range"),
        ({"supporting_facts": [["Work x", -1]]}, "supporting_sentence_out_of_range"),
        ({"context": [["Work x", [" "]]], "supporting_facts": [["Work x", 0]]},
         "supporting_sentence_empty"),
        ({"context": [["Work x", "One."]], "supporting_facts": [["Work x", 0]]},
         "malformed_passage"),
    ],
)  # fmt: skip
def test_hotpotqa_question_that_is_unusable(values: dict[str, Any], rule: str) -> None:
    with pytest.raises(Unusable) as raised:
        _hotpotqa.read_question(hotpot(**values), "s")
    assert raised.value.rule == rule


def step(**values: Any) -> list[dict[str, Any]]:
    return [{"answer": "Town x", "paragraph_support_idx": 1, **values}]


@pytest.mark.parametrize(
    ("values", "rule"),
    [
        ({"question": 3}, "malformed_question"),
        ({"answer": "--"}, "answer_not_scorable"),
        ({"id": 3}, "malformed_question"),
        ({"answer_aliases": "Town"}, "malformed_question"),
        ({"answer_aliases": [3]}, "malformed_question"),
        ({"question_decomposition": []}, "malformed_question"),
        ({"question_decomposition": ["step"]}, "malformed_question"),
        ({"question_decomposition": step(answer=None)}, "malformed_question"),
        ({"question_decomposition": step(paragraph_support_idx=None)},
         "supporting_paragraph_out_of_range"),
        ({"question_decomposition": step(paragraph_support_idx=3)},
         "supporting_paragraph_out_of_range"),
        ({"question_decomposition": step(paragraph_support_idx=True)},
         "supporting_paragraph_out_of_range"),
        ({"paragraphs": [{"idx": 1}, {"idx": 1}], "question_decomposition": step()},
         "supporting_paragraph_out_of_range"),
        ({"paragraphs": [{"idx": 1, "title": "T"}], "question_decomposition": step()},
         "malformed_passage"),
    ],
)  # fmt: skip
def test_musique_question_that_is_unusable(values: dict[str, Any], rule: str) -> None:
    with pytest.raises(Unusable) as raised:
        _musique.read_question(musique(**values), "s")
    assert raised.value.rule == rule


def test_unanswerable_is_left_out() -> None:
    with pytest.raises(LeftOut, match=r"^unanswerable$"):
        _musique.read_question(musique(answerable=False, question_decomposition=None), "s")


@pytest.mark.parametrize("form", ["hotpotqa", "musique"])
def test_every_question_is_counted(form: str, tmp_path: Path) -> None:
    good = sound(form, 100)
    make = hotpot if form == "hotpotqa" else musique
    bad = [make("not in the corpus"), make("x", question=None), "text", {"question": "no list"}]
    extra = [good[0], *([] if form == "hotpotqa" else [musique("y", answerable=False)])]
    ran = imported(tmp_path, form, [*good, *bad, *extra], good)
    accounting = ran.accounting("questions")
    assert accounting == {
        "in": 104 + len(extra), "out": 100,
        "quarantined": {"gold_document_missing": 1, "malformed_question": 3},
        "dropped": {"duplicate_question": 1, **({} if form == "hotpotqa" else {"unanswerable": 1})},
    }  # fmt: skip
    missing = [q for q in ran.quarantine("questions") if q[0] == "gold_document_missing"]
    assert missing == [
        ("gold_document_missing", "q.json[100]", make("not in the corpus")["question"])
    ]


def test_shared_gold_documents_keep_one_split_and_runs_are_equal(tmp_path: Path) -> None:
    questions = sound("hotpotqa", 40)
    for number in range(0, 40, 2):  # two questions over the same pages
        twin = {**questions[number], "question": f"Which one is {number}?"}
        questions.append(twin)
    ran = imported(tmp_path, "hotpotqa", questions, questions)
    splits: dict[str, str] = {}
    for row in ran.rows("questions"):
        for doc_id in row["gold_doc_ids"]:
            assert splits.setdefault(doc_id, row["split"]) == row["split"]
    before = data_bytes(ran, "questions")
    turned = imported(tmp_path, "hotpotqa", questions[::-1], questions)
    assert data_bytes(turned, "questions") == before
    other = imported(tmp_path, "hotpotqa", questions, questions, seed=1)
    assert data_bytes(other, "questions") != before


@pytest.mark.parametrize(
    ("questions", "message"),
    [
        ([], "none of its 0 questions can be used"),
        ([hotpot("gone")], r"(?s)none of its 1 questions.*first q\.json\[0\]: the passage 'Work "
                           r"gone' is not in documents.*the same benchmark"),
        (sound("hotpotqa", 1), r"(?s)no question is left for the test split.*synthesize\.splits"),
        (["x"] * 2 + sound("hotpotqa"), "2 of 22 rows"),
        ({}, "expected a JSON list, found object"),
    ],
)  # fmt: skip
def test_files_that_give_no_dataset(questions: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        imported(tmp_path, "hotpotqa", questions, sound("hotpotqa"))
    assert not (tmp_path / "data" / "questions").exists()


def test_no_file(tmp_path: Path) -> None:
    message = (
        r"(?s)synthesize\.questions: no file 'inputs/z\.json'.*allowed: q\.json.*"
        r"synthesize\.path and synthesize\.questions"
    )
    with pytest.raises(UserError, match=message):
        imported(tmp_path, "musique", [], sound("musique"), questions="z.json")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"format": "squad"}, "'hotpotqa' or 'musique'"),
        ({"path": ""}, r"synthesize\.path"),
        ({"hops": 2}, r"unknown parameter 'synthesize\.hops'"),
    ],
)
def test_wrong_parameters(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        validate("synthesize", {**VALUES, "format": "musique", **values})


def _documents(folder: Path) -> list[dict[str, Any]]:
    return Ran(folder, {}).rows("documents")


def _texts(folder: Path, row: dict[str, Any]) -> list[str]:
    """The text of the gold chunks, in their order."""
    texts = {document["doc_id"]: document["text"] for document in _documents(folder)}
    chunks = {chunk["chunk_id"]: chunk for chunk in Ran(folder, {}).rows("chunks")}
    found = [chunks[chunk_id] for chunk_id in row["gold_chunk_ids"]]
    return [texts[c["doc_id"]][c["char_start"] : c["char_end"]] for c in found]
