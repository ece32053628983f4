"""Judges and writers with real models behind the layer: tiny ones, made and trained here."""

from __future__ import annotations

import json
import math
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import UserError
from schemas.ids import content_id
from stages.corpus._tokenizer import WordLevelTokenizer, make_tokenizer
from stages.llm.tokenizer import load_causal_lm, load_tokenizer
from tests.conftest import WORDS, random_lfm2
from tests.unit.stages import harness
from tests.unit.stages.answers import with_settings
from tests.unit.stages.corpus.test_extraction import VALUES as CORPUS
from tests.unit.stages.harness import Ran, data_bytes, put_corpus, run_stage
from tests.unit.stages.judge.test_language_judges import PAIRWISE, RUBRIC, YES_NO, panel
from tests.unit.stages.library import PASSAGES, put_candidates, put_library
from tests.unit.stages.synthesize.test_kg_random_walk import ring
from tests.unit.stages.synthesize.test_rewording import VALUES as WALKS

ANSWERS = [
    (0, "<think> x </think> Paris is in France [4]. Answer: Paris", "stop"),
    (0, "<think> x </think> Rome is in Italy [1]. Answer: Rome", "stop"),
    (1, "<think> x </think> France is old [5]. Answer: Paris", "stop"),
]


def make_model(folder: Path, reply: str | None) -> None:
    """A random LFM2; with a reply, trained to say it (one token) at the end of any prompt."""
    import torch

    folder.mkdir(parents=True)
    with chdir(folder):
        config = WordLevelTokenizer(kind="word_level", max_words=500, markers=16, words=WORDS)
        texts = [text for passage in PASSAGES for text in passage] + ["Yes No Criterion Scale JSON"]
        tokenizer = make_tokenizer(config, texts)
    tokenizer.add_tokens([reply] if reply else [])
    tokenizer.chat_template = (
        "{% for message in messages %}{{ message['content'] }} {% endfor %}Answer :"
    )
    model = random_lfm2(tokenizer, window=1024)
    if reply:
        end = [*tokenizer.encode("Answer :", add_special_tokens=False),
               tokenizer.convert_tokens_to_ids(reply), tokenizer.eos_token_id]  # fmt: skip
        optimiser = torch.optim.AdamW(model.parameters(), lr=0.02)
        for _ in range(60):
            noise = torch.randint(len(tokenizer), (8, 24))
            rows = torch.cat([noise, torch.tensor([end] * 8)], dim=1)
            labels = rows.clone()
            labels[:, :-2] = -100
            loss = model(input_ids=rows, labels=labels).loss
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        assert loss.item() < 0.1
    model.save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)


def judged(folder: Path, judge: dict[str, Any], reply: str | None) -> Ran:
    put_library(folder)
    put_candidates(folder, ANSWERS)
    make_model(folder / "models" / "judge", reply)
    return run_stage(folder, "judge", panel(it=judge))


def test_rubric(tmp_path: Path) -> None:
    ran = judged(tmp_path, RUBRIC, json.dumps({"explanation": "because", "score": 4}))
    rows = ran.rows("judgments")
    assert [(row["value"], row["status"]) for row in rows] == [(0.75, "ok")] * 3
    assert {part["reason"] for row in rows for part in row["parts"]} == {"because"}
    assert all(row["n_tokens"] == 2 and row["n_prompt_tokens"] > 100 for row in rows)
    first = data_bytes(ran, "judgments")
    assert data_bytes(run_stage(tmp_path, "judge", panel(it=RUBRIC)), "judgments") == first


def test_pairwise_by_a_model_that_always_prefers_the_first(tmp_path: Path) -> None:
    ran = judged(tmp_path, PAIRWISE, json.dumps({"explanation": "because", "better": "1"}))
    found = sorted((row["value"], row["status"], row["agreement"]) for row in ran.rows("judgments"))
    assert found == [
        (None, "failed:no_opponent", None),
        (None, "failed:order_disagreement", 0.0),
        (None, "failed:order_disagreement", 0.0),
    ]
    assert ran.metrics["agreement_it"] == 0.0


def test_yes_no_is_what_the_model_computes(tmp_path: Path) -> None:
    """Against log-probabilities computed here, one prompt at a time, without the layer."""
    import torch

    from stages.judge import _yes_no
    from stages.judge._prompt import load_prompt
    from stages.llm.prompts import Chunk, Document, render_prompt

    ran = judged(tmp_path, YES_NO, None)
    rows = {row["candidate_id"]: row for row in ran.rows("judgments")}
    model, tokenizer = (load(tmp_path / "models" / "judge")
                        for load in (load_causal_lm, load_tokenizer))  # fmt: skip
    prompt = load_prompt("yes_no", _yes_no.NEEDS)
    order = [PASSAGES[1], PASSAGES[2], PASSAGES[0]]  # of the long view
    documents = []
    for title, text in order:
        cut = text.index(". ") + 1 if ". " in text else len(text)
        spans = [(0, cut), (cut + 1, len(text))] if cut < len(text) else [(0, cut)]
        documents.append(
            Document(title, title, text, tuple(Chunk(f"{title}{s}", s, e) for s, e in spans))
        )
    for number, (question, text, _) in enumerate(ANSWERS):
        head = render_prompt(prompt.shared, f"What is q{question}?", documents).text
        content = text.split("</think>")[1].strip()
        ask = prompt.ask.replace("{response}", content).replace("{check}", "Is it right?")
        rendered = tokenizer.apply_chat_template(
            [{"role": "user", "content": head + ask}], tokenize=False, add_generation_prompt=True
        )
        ids = tokenizer.encode(rendered, add_special_tokens=False)
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([ids])).logits[0, -1].float()
        yes, no = (logits[tokenizer.encode(word, add_special_tokens=False)[0]].item()
                   for word in ("Yes", "No"))  # fmt: skip
        row = rows[content_id("candidate", number)]
        assert row["value"] == pytest.approx(1 / (1 + math.exp(no - yes)), abs=1e-5)
        assert (row["n_tokens"], row["status"]) == (0, "ok")


def test_a_model_that_cannot_write_json_gives_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_library(tmp_path)
    put_candidates(tmp_path, ANSWERS)
    make_model(tmp_path / "models" / "judge", None)
    with pytest.raises(UserError, match=r"judge: .* failed \(\d broken_json"):
        run_stage(tmp_path, "judge", panel(it=RUBRIC))
    assert not (tmp_path / "data" / "judgments").exists()
    monkeypatch.setattr(harness, "PARAMS", with_settings(max_failed=1.0))
    ran = run_stage(tmp_path, "judge", panel(it=RUBRIC))
    found = {(row["value"], row["status"]) for row in ran.rows("judgments")}
    assert found == {(None, "failed:broken_json")}
    assert ran.metrics["judges_failed"] == 3


def test_a_writer_of_triples(tmp_path: Path) -> None:
    (tmp_path / "inputs").mkdir()
    for name, text in (("a", "Paris is in France."), ("b", "Rome is in Italy.")):
        (tmp_path / "inputs" / f"{name}.txt").write_text(text)
    triple = {"head": "Paris", "relation": "is in", "tail": "France"}
    make_model(tmp_path / "models" / "writer", json.dumps({"triples": [triple]}))
    ran = run_stage(tmp_path, "corpus", CORPUS)
    (row,) = ran.rows("triples")
    assert (row["head"], row["relation"], row["tail"]) == ("Paris", "is in", "France")
    assert (row["char_start"], row["char_end"]) == (0, len("Paris is in France."))
    assert [rule for rule, _, _ in ran.quarantine("triples")] == ["entity_not_in_text"]


def test_a_writer_of_questions(tmp_path: Path) -> None:
    """It says one thing alone, which fits the walks that start at E3 and no other."""
    put_corpus(tmp_path, *ring(40))
    question = "What comes behind E3?"
    make_model(tmp_path / "models" / "writer", json.dumps({"question": question}))
    values = {**WALKS, "rewording": {**WALKS["rewording"], "on_failure": "keep"}}
    values["rewording"]["sampling"] = {"temperature": 0.0, "top_p": 1.0, "max_new_tokens": 8}
    ran = run_stage(tmp_path, "synthesize", values)
    rows = ran.rows("questions")
    assert set(ran.metrics["not_reworded"]) <= {
        "start_missing",
        "duplicate_wording",
        "leaks_answer",
    }
    assert ran.metrics["reworded"] == sum(row["question"] == question for row in rows) <= 1
    assert ran.metrics["not_reworded"]["start_missing"] > 0
    assert ran.metrics["reworded"] + sum(ran.metrics["not_reworded"].values()) == len(rows)
