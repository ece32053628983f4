from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from pipelines.report.accounting import balance, stage_times
from pipelines.report.charts import Dot, Points, bar_chart, dot_chart, line_chart
from pipelines.report.estimates import Estimate, number, seconds
from pipelines.report.evaluation import bucket_label, headline
from pipelines.report.facts import Workspace
from pipelines.report.integrity import checks
from pipelines.report.lineage import count_parameters, draw, lineage
from pipelines.report.samples import rollout_group, samples, segments
from stages.llm.prompts import Chunk, Document, load_template, render_prompt
from tests.unit.pipelines.report.conftest import QUESTIONS


@pytest.mark.parametrize(
    ("low", "high", "reference", "words"),
    [
        (0.1, 0.2, 0.0, "interval excludes 0 (lies above)"),
        (-0.2, -0.1, 0.0, "interval excludes 0 (lies below)"),
        (-0.1, 0.1, 0.0, "interval includes 0"),
        (0.0, 0.1, 0.0, "interval includes 0"),  # an end on the reference does not exclude it
        (0.59, 0.71, 0.6, "interval includes 0.6"),
        (None, None, 0.0, "too little data to compare with 0"),
    ],
)
def test_words_of_an_interval(
    low: float | None, high: float | None, reference: float, words: str
) -> None:
    assert Estimate(0.5, low, high, 3).against(reference) == words


def test_numbers() -> None:
    assert number(-0.0094) == "−0.009"
    assert number(0.25, signed=True) == "+0.250"
    assert number(None) == "–"
    assert [seconds(s) for s in (None, 5.19, 331.19, 7260)] == [
        "–", "5.2 s", "5 min 31 s", "2 h 01 min",
    ]  # fmt: skip
    assert Estimate.of({"value": 0.2, "low": None, "high": None, "n": 1}).text() == (
        "0.200 no interval"
    )


def test_balance() -> None:
    account = {"in": 10, "out": 6, "quarantined": {"a": 1}, "dropped": {"b": 2}}
    assert balance(account) == 1


def test_charts_are_themed_and_safe() -> None:
    chart = line_chart("A <b> & $x$", [Points("<i>", [1, 2], [0.0, None])], x="x", y="y")
    assert "#0102" not in chart.svg
    assert "var(--c1)" in chart.svg
    assert "http" not in chart.svg
    assert chart.rows == (("1", "0.000"), ("2", "–"))
    dots = [
        Dot("<i> $x$ " + "long " * 40, 0.5, 0.4, 0.6, [0.4, 0.6]), Dot("none", None, None, None)
    ]  # fmt: skip
    drawn = dot_chart("t", dots, name="t", x="x", table=(["<a>"], [[1]]), reference=0.0)
    assert "&lt;i&gt; $x$" in drawn.svg and "…" in drawn.svg and "no value" in drawn.svg
    assert "#0102" not in drawn.svg
    assert (drawn.columns, drawn.rows) == (("<a>",), ((1,),))
    hostile = bar_chart("t", ["<script>", "$a"], {"n": [1, 2]}, x="<x>", y="n")
    assert "<script>" not in hostile.svg
    assert "&lt;script&gt;" in hostile.svg
    again = bar_chart("t", ["<script>", "$a"], {"n": [1, 2]}, x="<x>", y="n")
    assert again.svg == hostile.svg


@pytest.mark.parametrize(
    ("name", "bucket", "label"),
    [
        ("budget", "4096", "≤ 4,096"),
        ("hops", "1", "1 hop"),
        ("gold_position", "3 last third", "last third"),
        ("hardest_tier", "tier1", "tier1"),
    ],
)
def test_bucket_labels(name: str, bucket: str, label: str) -> None:
    assert bucket_label(name, bucket) == label


def _document(sentences: list[str]) -> Document:
    text, chunks = "", []
    for i, sentence in enumerate(sentences):
        text += " " if text else ""
        chunks.append(Chunk(f"c{i}", len(text), len(text) + len(sentence)))
        text += sentence
    return Document("d", "Title", text, tuple(chunks))


def test_segments_are_the_text_of_the_prompt() -> None:
    document = _document(["One is first.", "Two follows.", "Three ends."])
    shown = list(segments(document, [1, 2, 3], frozenset({"c1"})))
    prompt = render_prompt(load_template("plain"), "Why?", [document])
    assert "".join(segment.text for segment in shown) in prompt.text
    assert [segment.text for segment in shown if segment.gold] == ["Two follows [2]."]


def test_long_documents_keep_their_gold_and_say_what_is_cut() -> None:
    document = _document([f"Sentence {i} " + "x" * 90 + "." for i in range(40)])
    shown = list(segments(document, list(range(1, 41)), frozenset({"c30"})))
    assert [s.text[:11] for s in shown if s.gold] == ["Sentence 30"]
    assert [s.cut.split(" chunk")[0] for s in shown if s.cut] == ["24 more", "9 more"]
    assert sum(len(segment.text) for segment in shown) < 1000


def test_samples_are_picked_by_the_rule(finished: Path) -> None:
    workspace = Workspace.open(finished)
    found, kinds = samples(workspace)
    assert kinds == {
        "both right": 1, "only the warm-up right": 1, "only the policy right": 1, "both wrong": 2,
    }  # fmt: skip
    kind = {QUESTIONS[0]: "both right", QUESTIONS[1]: "only the warm-up right",
            QUESTIONS[2]: "only the policy right"}  # fmt: skip
    assert {s.question_id: s.kind for s in found} == {
        q: kind.get(q, "both wrong") for q in QUESTIONS[:5]
    }
    assert [a.system for a in found[0].answers] == [
        "Warm-up", "Policy", "Policy, gold documents removed",
    ]  # fmt: skip
    group = rollout_group(workspace)
    assert group is not None
    assert (group.size, [r.number for r in group.rollouts]) == (6, [0, 1, 2, 3])
    assert group.rollouts[1].parts == {"outcome": 1.0}


def test_headline_without_a_reward_model(finished: Path) -> None:
    names = [item.name for item in headline(Workspace.open(finished))]
    assert not any(name.startswith("Best of") for name in names)


def _verdicts(root: Path) -> dict[str, str]:
    return {check.name: check.verdict for check in checks(Workspace.open(root))}


def test_checks_pass_and_notice(workspace_copy: Path) -> None:
    before = _verdicts(workspace_copy)
    means = "Headline means recomputed from data/evaluations"
    edges, ran = ("Every stage read what the stage before it wrote",
                  "params.yaml is what the stages ran with")  # fmt: skip
    assert before[means] == "pass"
    assert (before[edges], before[ran]) == ("not made", "not made")

    path = workspace_copy / "reports" / "evaluate.json"
    metrics: dict[str, Any] = json.loads(path.read_text())
    metrics["blind"]["reward"]["value"] = 0.3
    path.write_text(json.dumps(metrics))
    params = yaml.safe_load((workspace_copy / "params.yaml").read_text())
    lock: dict[str, Any] = {"stages": {
        "corpus": {"outs": [{"path": "data/documents", "md5": "a"}],
                   "params": {"params.yaml": {"corpus": params["corpus"]}}},
        "synthesize": {"deps": [{"path": "data/documents", "md5": "a"}]},
    }}  # fmt: skip
    (workspace_copy / "dvc.lock").write_text(yaml.safe_dump(lock))
    after = _verdicts(workspace_copy)
    assert (after[means], after[edges], after[ran]) == ("fail", "pass", "pass")

    lock["stages"]["synthesize"]["deps"][0]["md5"] = "b"
    lock["stages"]["corpus"]["params"]["params.yaml"]["corpus"] = {"kind": "atlas"}
    (workspace_copy / "dvc.lock").write_text(yaml.safe_dump(lock))
    last = _verdicts(workspace_copy)
    assert (last[edges], last[ran]) == ("fail", "fail")


@pytest.mark.parametrize(
    ("locked", "verdict"),
    [
        ("{corpus.path: inputs, judge: {rate: 2e-05, reply: yes}}", "pass"),  # as DVC writes it
        ("{corpus.path: elsewhere}", "fail"),
        ("{judge: {rate: 3e-05, reply: yes}}", "fail"),
        ("{judge: {rate: 2e-05, reply: 'no'}}", "fail"),
        ("{corpus.absent: 1}", "fail"),
    ],
)
def test_parameters_are_compared_as_dvc_names_and_writes_them(
    workspace_copy: Path, locked: str, verdict: str
) -> None:
    params = {"corpus": {"path": "inputs"}, "judge": {"rate": 2e-05, "reply": "yes"}}
    (workspace_copy / "params.yaml").write_text(yaml.safe_dump(params))
    lock = f"stages: {{corpus: {{params: {{params.yaml: {locked}}}}}}}"
    (workspace_copy / "dvc.lock").write_text(lock)
    assert _verdicts(workspace_copy)["params.yaml is what the stages ran with"] == verdict


def test_lineage_draws_no_implied_edge(finished: Path) -> None:
    nodes = lineage(Workspace.open(finished))
    assert [(node.stage, node.parents) for node in nodes] == [
        ("corpus", ()), ("synthesize", ("corpus",)), ("evaluate", ("synthesize",)),
    ]  # fmt: skip
    assert nodes[0].reads == ("inputs",)
    assert nodes[0].outputs[0].size == "1 row"
    for width in (350, 1080):
        assert f'viewBox="0 0 {width}' in draw(nodes, width)


def test_parameters_are_counted_from_the_header(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    assert count_parameters(tmp_path) is None
    save_file({"a": np.zeros((3, 4)), "b": np.zeros(5)}, tmp_path / "model.safetensors")
    assert count_parameters(tmp_path) == 17


def test_times_are_of_the_last_good_run(workspace_copy: Path) -> None:
    log = workspace_copy / ".longline" / "runs.jsonl"
    log.parent.mkdir()
    runs = [{"stage": "corpus", "status": status, "seconds": s, "variant": "files", "cpus": 2,
             "machine": "m", "time": f"2026-01-0{s}"}
            for s, status in ((1, "ok"), (2, "ok"), (3, "failed"))]  # fmt: skip
    log.write_text("\n".join(json.dumps(run) for run in runs) + '\n{"cut')
    [corpus, *rest] = stage_times(Workspace.open(workspace_copy))
    assert (corpus.seconds, corpus.time, corpus.failed_since) == (2, "2026-01-02", 1)
    assert all(time.seconds is None for time in rest)
