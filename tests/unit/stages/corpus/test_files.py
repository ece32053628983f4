from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from schemas.errors import UserError
from schemas.ids import content_id
from tests.unit.stages.corpus.conftest import COMMON, RunCorpus


def lines(*rows: Any) -> str:
    return "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)


def good(count: int) -> list[dict[str, str]]:
    return [{"text": f"Text number {number}. It is good."} for number in range(count)]


def parquet(path: Path, select: str) -> None:
    duckdb.sql(f"COPY ({select}) TO '{path}' (FORMAT parquet)")


def test_reads_all_formats_in_sorted_order(run_corpus: RunCorpus, inputs: Path) -> None:
    (inputs / "sub").mkdir()
    (inputs / "sub" / "note.md").write_text("intro\n## A  heading ##\nBody.\n", encoding="utf-8")
    (inputs / "plain.txt").write_bytes("\ufeffA plain \U0001f600 text.\r\n".encode())
    (inputs / "UPPER.TXT").write_text("Upper.")
    (inputs / "bare.md").write_text("No heading.")
    (inputs / "rows.jsonl").write_text(
        lines({"text": "One.", "title": "T", "lang": "fr", "licence": "CC0-1.0", "id": 7}, "",
              {"text": "Two.", "other": 1, "title": None})
    )  # fmt: skip
    parquet(inputs / "rows.parquet", "SELECT 'Tabular.' AS text, 'P' AS title, 1 AS other")
    (inputs / ".hidden.txt").write_text("no")
    (inputs / "scan.pdf").write_text("no")
    ran = run_corpus("files")
    found = {r["source"]: (r["title"], r["text"], r["lang"], r["licence"])
             for r in ran.rows("documents")}  # fmt: skip
    assert found == {
        "UPPER.TXT": ("UPPER", "Upper.", "und", None),
        "bare.md": ("bare", "No heading.", "und", None),
        "plain.txt": ("plain", "A plain \U0001f600 text.\r\n", "und", None),
        "rows.jsonl:1": ("T", "One.", "fr", "CC0-1.0"),
        "rows.jsonl:3": ("", "Two.", "und", None),
        "rows.parquet:1": ("P", "Tabular.", "und", None),
        "sub/note.md": ("A  heading", "intro\n## A  heading ##\nBody.\n", "und", None),
    }
    assert ran.accounting("documents") == {"in": 7, "out": 7, "quarantined": {}, "dropped": {}}
    assert ran.rows("triples") == [] and ran.metrics["triples"] == 0


def test_one_file(run_corpus: RunCorpus, inputs: Path) -> None:
    (inputs / "a.txt").write_text("Hello there. And more.")
    ran = run_corpus("files", path="inputs/a.txt")
    (row,) = ran.rows("documents")
    assert row["source"] == "a.txt" and row["doc_id"] == content_id("a", row["text"])
    assert (row["n_chars"], row["n_tokens"]) == (22, 6)
    (chunk,) = ran.rows("chunks")
    assert chunk["chunk_id"] == content_id(row["doc_id"], 0, 22)


def test_bad_rows_are_quarantined_and_the_rest_goes_on(run_corpus: RunCorpus, inputs: Path) -> None:
    bad = [
        "{not json",
        "[1]",
        {"title": "no text"},
        {"text": 5},
        {"text": "x", "title": 5},
        {"text": " \n "},
        '{"text": "half \\ud800"}',
        "[" * 100_000,
    ]
    (inputs / "a.jsonl").write_text(lines(*good(200), *bad))
    (inputs / "b.txt").write_bytes(b"caf\xe9 was latin-1")
    with (inputs / "c.jsonl").open("wb") as file:
        file.write(b'{"text": "bad \xff byte"}\n{"text": "Last."}\n')
    ran = run_corpus("files")
    assert [(rule, source) for rule, source, _ in ran.quarantine("documents")] == [
        ("malformed_json", "a.jsonl:201"),
        ("malformed_json", "a.jsonl:202"),
        ("text_missing", "a.jsonl:203"),
        ("text_not_a_string", "a.jsonl:204"),
        ("title_not_a_string", "a.jsonl:205"),
        ("text_not_empty", "a.jsonl:206"),
        ("invalid_unicode", "a.jsonl:207"),
        ("malformed_json", "a.jsonl:208"),
        ("invalid_utf8", "b.txt"),
        ("invalid_utf8", "c.jsonl:1"),
    ]
    assert ran.accounting("documents")["in"] == 211 and ran.metrics["documents"] == 201


def test_too_many_bad_rows_stop_the_stage(run_corpus: RunCorpus, inputs: Path) -> None:
    (inputs / "a.jsonl").write_text(lines(*good(10), "{"))
    with pytest.raises(UserError, match=r"1 of 11 rows .*a\.jsonl:11"):
        run_corpus("files")
    assert not (inputs.parent / "data").exists()
    assert not list((inputs.parent / ".work").iterdir())


def test_duplicates_are_dropped_once(run_corpus: RunCorpus, inputs: Path) -> None:
    rows = [{"text": "Same.", "title": "a"}, {"text": "Same.", "title": "b"}]
    (inputs / "a.jsonl").write_text(lines(*rows, rows[0]))
    (inputs / "b.jsonl").write_text(lines(rows[1]))
    ran = run_corpus("files")
    assert ran.accounting("documents") == {
        "in": 4, "out": 2, "quarantined": {}, "dropped": {"duplicate": 2},
    }  # fmt: skip
    assert ran.metrics["duplicates"] == 2
    assert {row["source"] for row in ran.rows("documents")} == {"a.jsonl:1", "a.jsonl:2"}


def test_an_id_names_one_text(run_corpus: RunCorpus, inputs: Path) -> None:
    rows = [{"text": "One.", "id": "x"}, {"text": "One.", "id": "x"}, {"text": "Two.", "id": "x"}]
    (inputs / "a.jsonl").write_text(lines(*good(40), *rows))
    ran = run_corpus("files")
    assert ran.quarantine("documents") == [("duplicate_id", "a.jsonl:43", "Two.")]
    assert ran.accounting("documents")["dropped"] == {"duplicate": 1}


def test_readme_of_the_folder_is_no_document(run_corpus: RunCorpus, inputs: Path) -> None:
    (inputs / "README.md").write_text("# Put documents here")
    with pytest.raises(UserError, match="no file to read"):
        run_corpus("files")
    (inputs / "a.txt").write_text("Text.")
    ran = run_corpus("files")
    assert ran.accounting("documents")["dropped"] == {"readme_of_the_folder": 1}


@pytest.mark.parametrize("path", ["nowhere", "inputs", "inputs/a.pdf"])
def test_nothing_to_read(path: str, run_corpus: RunCorpus, inputs: Path) -> None:
    if path.endswith("pdf"):
        (inputs / "a.pdf").write_text("x")
    with pytest.raises(UserError, match=rf"(?s){path}.*\.jsonl, \.md, \.parquet, \.txt"):
        run_corpus("files", path=path)


def test_parquet(run_corpus: RunCorpus, inputs: Path) -> None:
    parquet(
        inputs / "a.parquet",
        "SELECT CASE WHEN i = 700 THEN NULL ELSE 'Text ' || i END AS text, i AS id, 'de' AS lang "
        "FROM range(1200) t(i)",
    )
    ran = run_corpus("files")
    assert ran.metrics["documents"] == 1199
    assert [q[:2] for q in ran.quarantine("documents")] == [("text_missing", "a.parquet:701")]


@pytest.mark.parametrize(
    ("content", "message"),
    [("SELECT 'x' AS body", r"no column 'text'; its columns are \['body'\]"),
     (None, "cannot be read as Parquet")],
)  # fmt: skip
def test_parquet_that_is_none(
    content: str | None, message: str, run_corpus: RunCorpus, inputs: Path
) -> None:
    if content is None:
        (inputs / "a.parquet").write_bytes(b"PAR1 and no more")
    else:
        parquet(inputs / "a.parquet", content)
    with pytest.raises(UserError, match=message):
        run_corpus("files")


def test_triples(run_corpus: RunCorpus, inputs: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"text": "It is so. Lyon is in France. Lyon, France!", "id": 3, "title": "Lyon"},
        {"text": "Other.", "title": "Twice"},
        {"text": "Another.", "title": "Twice"},
    ]
    (inputs / "a.jsonl").write_text(lines(*rows))
    doc_id = content_id("Lyon", rows[0]["text"])
    fact = {"head": "lyon", "relation": "country", "tail": "France "}
    edges = [
        {**fact, "doc_id": "3", "head_type": "city"},
        {**fact, "doc_id": doc_id},  # the same edge again
        {**fact, "tail": "Gaul", "title": "Lyon"},
        *({**fact, "doc_id": 3, "tail": f"place {n}"} for n in range(120)),
        {**fact, "title": "Twice"},
        {**fact, "title": "None"},
        {**fact, "tail": ""},
        {**fact, "head": None, "doc_id": "3"},
        fact,
        {**fact, "doc_id": "3", "tail": "LYON"},
    ]
    (inputs / "kg.jsonl").write_text(lines(*edges))
    ran = run_corpus("files", triples="inputs/kg.jsonl")
    found = {row["tail"]: row for row in ran.rows("triples")}
    assert ran.metrics["documents"] == 3 and len(found) == 122
    france = found["France"]
    assert france["doc_id"] == doc_id and france["head_type"] == "city"
    assert rows[0]["text"][france["char_start"] : france["char_end"]] == "Lyon is in France."
    assert found["Gaul"]["char_start"] is None and found["Gaul"]["char_end"] is None
    assert ran.accounting("triples")["dropped"] == {"duplicate": 1}
    assert ran.accounting("triples")["quarantined"] == {
        "ambiguous_document": 1, "malformed_triple": 3, "not_a_loop": 1, "unknown_document": 1,
    }  # fmt: skip


def test_triples_file_not_there(run_corpus: RunCorpus, inputs: Path) -> None:
    (inputs / "a.txt").write_text("Text.")
    with pytest.raises(UserError, match=r"corpus\.triples: no file 'kg\.jsonl'"):
        run_corpus("files", triples="kg.jsonl")


def test_control_characters(run_corpus: RunCorpus, inputs: Path) -> None:
    # chr(28) is white space, NUL is a character.
    (inputs / "a.jsonl").write_text(lines(*good(40), {"text": "\x1c"}, {"text": "a\x00b"}))
    ran = run_corpus("files")
    assert [rule for rule, *_ in ran.quarantine("documents")] == ["text_not_empty"]
    assert "a\x00b" in {row["text"] for row in ran.rows("documents")}


def test_run_twice_gives_the_same_bytes(run_corpus: RunCorpus, tmp_path: Path) -> None:
    results = []
    for name in ("a", "b"):
        (tmp_path / name / "inputs").mkdir(parents=True)
        (tmp_path / name / "inputs" / "a.jsonl").write_text(lines(*good(2000), "{"))
        (tmp_path / name / "inputs" / "b.txt").write_text("Some. Text.")
        results.append(run_corpus("files", tmp_path / name).files())
    assert results[0] == results[1]


def test_small_vocabulary_is_reported(run_corpus: RunCorpus, inputs: Path) -> None:
    (inputs / "a.txt").write_text("one one two three")
    tokenizer = {**COMMON["tokenizer"], "max_words": 1, "markers": 0, "words": []}
    ran = run_corpus("files", tokenizer=tokenizer)
    assert ran.metrics["tokens"] == {"total": 4, "mean": 4.0, "max": 4, "unknown": 2}
    assert ran.metrics["vocabulary"] == 6


def test_pretrained_tokenizer_counts_and_cuts(
    run_corpus: RunCorpus, inputs: Path, tmp_path: Path
) -> None:
    """A byte-level BPE, whose counts do not add up over the seams of sentences."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.train_from_iterator(
        [row["text"] for row in good(50)],
        trainers.BpeTrainer(vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                            special_tokens=["<eos>"], show_progress=False),
    )  # fmt: skip
    made = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=bpe, eos_token="<eos>"
    )
    made.save_pretrained(tmp_path / "model")
    text = " ".join(row["text"] for row in good(30)) + "\n\n" + "\u4f60" * 40 + " \U0001f600"
    (inputs / "a.txt").write_text(text, encoding="utf-8")
    ran = run_corpus(
        "files",
        tokenizer={"kind": "pretrained", "path": "model"},
        chunk={"max_tokens": 25, "max_sentences": None},
    )
    copy = AutoTokenizer.from_pretrained(ran.folder / "models" / "tokenizer")
    (document,) = ran.rows("documents")
    assert document["n_tokens"] == len(copy.encode(text))
    end = 0
    for chunk in ran.rows("chunks"):
        assert text[end : chunk["char_start"]].strip() == ""
        end = chunk["char_end"]
        assert chunk["n_tokens"] == len(copy.encode(text[chunk["char_start"] : end])) <= 25
    assert end == len(text)
