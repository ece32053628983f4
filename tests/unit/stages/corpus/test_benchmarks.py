from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import UserError
from stages.benchmarks.hotpotqa import join_sentences
from tests.unit.stages.corpus.conftest import Ran, RunCorpus

HOTPOT = {"questions": "q.json", "passages": "p.json", "triples": None}


def put(folder: Path, **files: Any) -> None:
    for name, value in files.items():
        (folder / f"{name}.json").write_text(
            value if isinstance(value, str) else json.dumps(value), encoding="utf-8"
        )


def titles(ran: Ran) -> list[str]:
    return sorted(row["title"] for row in ran.rows("documents"))


@pytest.mark.parametrize(
    ("sentences", "text"),
    [
        (["One.", " Two."], "One. Two."),
        (["One.", "Two. ", "Three."], "One. Two. Three."),
        ([" One.", "", "Two."], "One. Two."),
        ([], ""),
        (["One.", 2], None),
        ("One.", None),
    ],
)
def test_join_sentences(sentences: Any, text: str | None) -> None:
    assert join_sentences(sentences) == text


def test_hotpotqa(run_corpus: RunCorpus, inputs: Path) -> None:
    put(
        inputs,
        p={"A": ["One.", " Two."], "B": ["Three."], **{f"T{n}": [f"N {n}."] for n in range(60)}},
        q=[
            {"context": [["A", ["One.", " Two."]], ["C", ["Only here."]]]},
            {"context": [["C", ["Only here."]], ["D", "no list"], "nothing"]},
            {"question": "no context"},
        ],
    )
    ran = run_corpus("hotpotqa", **HOTPOT)
    assert {"A", "B", "C"} <= set(titles(ran)) and ran.metrics["documents"] == 63
    assert ran.metrics["duplicates"] == 2
    assert [q[:2] for q in ran.quarantine("documents")] == [
        ("malformed_passage", "q.json[1].context[1]"),
        ("malformed_passage", "q.json[1].context[2]"),
        ("malformed_question", "q.json[2]"),
    ]
    (row,) = [row for row in ran.rows("documents") if row["title"] == "A"]
    assert row["text"] == "One. Two." and row["licence"] == "CC-BY-SA-4.0"
    assert (row["lang"], row["source"]) == ("en", "p.json[0]")


def test_hotpotqa_without_passages_file(run_corpus: RunCorpus, inputs: Path) -> None:
    put(inputs, q=[{"context": [["C", ["Only here."]]]}])
    assert titles(run_corpus("hotpotqa", **{**HOTPOT, "passages": None})) == ["C"]


def test_musique_with_openie(run_corpus: RunCorpus, inputs: Path) -> None:
    text = "Ann was born in Rome. She met Bob."
    put(
        inputs,
        p=[{"title": "Ann", "text": text}],
        q=[{"paragraphs": [{"title": "Ann", "paragraph_text": text},
                           {"title": "Bob", "paragraph_text": "Bob is a cat."}]}],
        k={"docs": [
            {"title": "Ann", "text": text, "extracted_triples": [
                ["Ann", "born in", "Rome"], ["Ann", "met", "Bob"], ["Ann", "born in", "Rome"],
                ["Ann", "born"], ["a", "b", "c", "d"], ["Ann", "is", " "], ["Ann", "is", 3], "no",
                ["Ann", "is", "ann"],
                *(["Ann", "likes", f"thing {n}"] for n in range(200)),
            ]},
            {"title": "Elsewhere", "text": "x", "extracted_triples": [["a", "b", "c"]]},
            {"title": "Ann"},
        ]},
    )  # fmt: skip
    ran = run_corpus("musique", questions="q.json", passages="p.json", triples="k.json")
    assert titles(ran) == ["Ann", "Bob"]
    found = {row["tail"]: row for row in ran.rows("triples")}
    assert text[found["Rome"]["char_start"] : found["Rome"]["char_end"]] == "Ann was born in Rome."
    assert found["Bob"]["char_start"] is None
    assert ran.accounting("triples") == {
        "in": 211, "out": 202, "dropped": {"duplicate": 1},
        "quarantined": {"malformed_triple": 5, "not_a_loop": 1, "unknown_document": 1,
                        "malformed_document": 1},
    }  # fmt: skip
    assert ("malformed_triple", "k.json:docs[0][3]", "['Ann', 'born']") in ran.quarantine("triples")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"q": []}, r"(?s)corpus\.passages: no file 'inputs/p\.json'.*q\.json"),
        ({"p": {}, "q": "[1"}, "q.json is not JSON"),
        ({"p": [], "q": []}, "expected a JSON object, found list"),
        ({"p": {}, "q": {}}, "expected a JSON list, found object"),
    ],
)
def test_files_that_are_not_right(
    files: dict[str, Any], message: str, run_corpus: RunCorpus, inputs: Path
) -> None:
    put(inputs, **files)
    with pytest.raises(UserError, match=message):
        run_corpus("hotpotqa", **HOTPOT)


def test_openie_file_that_is_none(run_corpus: RunCorpus, inputs: Path) -> None:
    put(inputs, q=[{"paragraphs": [{"title": "Bob", "paragraph_text": "Bob."}]}], k={})
    with pytest.raises(UserError, match="no list 'docs'"):
        run_corpus("musique", questions="q.json", passages=None, triples="k.json")


def test_real_hotpotqa(run_corpus: RunCorpus, multihop: Path) -> None:
    ran = run_corpus(
        "hotpotqa", path=str(multihop), questions="hotpotqa_train.json",
        passages="hotpotqa_train_corpus.json", triples=None,
    )  # fmt: skip
    print(ran.metrics, ran.accounting("documents"))
    assert ran.metrics["documents"] == 994
    by_title = {row["title"]: row["text"] for row in ran.rows("documents")}
    for question in json.loads((multihop / "hotpotqa_train.json").read_text(encoding="utf-8")):
        for title, sentences in question["context"]:
            assert all(sentence.strip() in by_title[title] for sentence in sentences)


def test_real_musique(run_corpus: RunCorpus, multihop: Path) -> None:
    ran = run_corpus(
        "musique", path=str(multihop), questions="musique_train.json",
        passages="musique_train_corpus.json", triples="musique_train_openie_kg.json",
    )  # fmt: skip
    located = [row for row in ran.rows("triples") if row["char_start"] is not None]
    print(ran.metrics, ran.accounting("documents"), ran.accounting("triples"), len(located))
    assert ran.metrics["documents"] == 1890
