"""Triples that a model reads out of chunks: what is none is in quarantine, with the reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import UserError
from stages.corpus._extraction import triples_of
from stages.corpus._locate import names
from stages.corpus._source import SourceTriple
from stages.corpus._spool import SpooledChunk
from stages.llm.answer import Answer
from stages.llm.request import Request
from tests.unit.stages.answers import asked, use
from tests.unit.stages.corpus.conftest import COMMON
from tests.unit.stages.harness import data_bytes, run_stage

TEXT = "Rome is in Italy. It is old. Italy borders France."
EXTRACTION: dict[str, Any] = {
    "model": {"folder": "models/writer"}, "prompt": "triples", "max_triples": 5, "part_chars": 40,
    "sampling": {"temperature": 0.0, "top_p": 1.0, "max_new_tokens": 200},
    "max_quarantined": 1.0, "seed": 0,
}  # fmt: skip
VALUES: dict[str, Any] = {
    **COMMON, "kind": "files", "chunk": {"max_tokens": 64, "max_sentences": 2},
    "extraction": EXTRACTION,
}  # fmt: skip


def chunk(text: str = TEXT, start: int = 10) -> SpooledChunk:
    return SpooledChunk("d", "Italy", "a.txt", 3, start, text)


def of(*triples: tuple[str, str, str], text: str = TEXT) -> list[Any]:
    rows = [dict(zip(("head", "relation", "tail"), t, strict=True)) for t in triples]
    return list(triples_of(chunk(text), Answer("ok", json.dumps({"triples": rows}))))


def test_a_triple_has_the_sentence_of_its_chunk() -> None:
    (found, far) = of((" Rome", "is  in", "italy"), ("Rome", "is in", "France"))
    assert (found.head, found.relation, found.tail) == ("Rome", "is in", "italy")
    assert (found.doc_id, found.span) == ("d", (10, 10 + len("Rome is in Italy.")))
    assert found.source == "a.txt:d:chunk 3[0]"
    assert far.span is None  # the two are in the chunk, but in no sentence together


@pytest.mark.parametrize(
    ("triple", "rule"),
    [
        (("Rome", " ", "Italy"), "malformed_triple"),
        (("Rome", "is in", "Europe"), "entity_not_in_text"),
        (("Rom", "is in", "Italy"), "entity_not_in_text"),
        (("Rome \ud800", "is in", "Italy"), "invalid_unicode"),
    ],
)
def test_what_is_no_triple_of_the_chunk(triple: tuple[str, str, str], rule: str) -> None:
    (found,) = of(triple)
    assert (found.rule, found.source) == (rule, "a.txt:d:chunk 3[0]")


@given(st.lists(st.tuples(*[st.sampled_from(["Rome", "Italy", "Oslo", "", "it", "."])] * 3)))
def test_every_triple_is_a_row_or_a_reason(triples: list[tuple[str, str, str]]) -> None:
    found = of(*triples)
    assert len(found) == len(triples)
    for item in found:
        if isinstance(item, SourceTriple):
            assert names(TEXT, item.head) and names(TEXT, item.tail) and item.relation


@pytest.mark.parametrize("status", ["timeout", "broken_json", "too_long"])
def test_a_chunk_whose_request_failed(status: Any) -> None:
    (found,) = triples_of(chunk(), Answer(status, detail="why"))
    assert (found.rule, found.reason, found.content) == (f"extraction_{status}", "why", TEXT)


def reply(request: Request) -> Any:
    """The first word with the last one; of a text about Oslo, something invented besides."""
    text = asked(request).split("\nText: ")[-1].split("\n\n")[0]
    words = text.rstrip(".").split()
    triples = [{"head": words[0], "relation": "goes with", "tail": words[-1]}]
    if words[0] == "Oslo":
        triples.append({"head": "Oslo", "relation": "is in", "tail": "Norway"})
    if words[0] == "Bern":
        return Answer("ok", '{"triples": [{"head": "Bern", "relation": NaN, "tail": "old"}]}')
    return {"triples": triples}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    for name in ("Rome", "Oslo", "Bern"):
        (inputs / f"{name}.txt").write_text(
            f"{name} is {{old}}. It is {name} still. End of a town."
        )
    return tmp_path


def test_stage(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = use(folder, monkeypatch, reply, model="models/writer", max_failed=1.0)
    ran = run_stage(folder, "corpus", VALUES)
    rows = ran.rows("triples")
    # Two chunks a document; the one of Bern about Bern has no JSON, also after the repair.
    assert sorted((row["head"], row["tail"]) for row in rows) == [
        ("End", "town"), ("End", "town"), ("End", "town"), ("Oslo", "still"), ("Rome", "still"),
    ]  # fmt: skip
    documents = {row["doc_id"]: row["text"] for row in ran.rows("documents")}
    spans = {documents[r["doc_id"]][r["char_start"] : r["char_end"]] for r in rows
             if r["char_start"] is not None}  # fmt: skip
    assert spans == {"End of a town.", "It is Oslo still.", "It is Rome still."}
    assert [(rule, content) for rule, _, content in ran.quarantine("triples")] == [
        ("extraction_broken_json", "Bern is {old}. It is Bern still."),
        ("entity_not_in_text", "['Oslo', 'is in', 'Norway']"),
    ]
    assert ran.accounting("triples")["in"] == 7
    assert ran.metrics["triples"] == 5
    # All chunks share the instruction, and each is there as it is written.
    texts = [asked(request) for request in backend.requests]
    assert len({text.split("Title:")[0] for text in texts}) == 1
    assert any("{old}" in text for text in texts)
    first = data_bytes(ran, "documents", "chunks", "triples")
    again = use(folder, monkeypatch, reply, model="models/writer", max_failed=1.0)
    assert (
        data_bytes(run_stage(folder, "corpus", VALUES), "documents", "chunks", "triples") == first
    )
    assert again.requests == []


def test_the_stage_declares_its_own_bound(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(folder, monkeypatch, reply, model="models/writer", max_failed=1.0)
    values = {**VALUES, "extraction": {**EXTRACTION, "max_quarantined": 0.1}}
    with pytest.raises(
        UserError, match=r"2 of 7 .* corpus\.extraction allows a share of 0\.1"
    ) as e:
        run_stage(folder, "corpus", values)
    assert "raise corpus.extraction.max_quarantined" in str(e.value)
    assert not (folder / "data" / "triples").exists()


def test_a_model_that_is_not_there_is_said_before_anything_is_read(folder: Path) -> None:
    (folder / "inputs" / "broken.jsonl").write_text("{")
    with pytest.raises(UserError, match="no model at models/writer"):
        run_stage(folder, "corpus", VALUES)


def test_without_extraction_nothing_changes(folder: Path) -> None:
    names = ("documents", "chunks", "triples")
    plain = {key: value for key, value in VALUES.items() if key != "extraction"}
    first = data_bytes(run_stage(folder, "corpus", plain), *names)
    assert data_bytes(run_stage(folder, "corpus", {**plain, "extraction": None}), *names) == first
