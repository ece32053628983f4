"""What `longline plan` says beside what will run: seconds, tokens, GPUs, the identity of stages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.functional.dags import Project, make_project, stage
from tests.functional.forks import Forks
from tests.functional.planning import longline, make

PREDICTED = {
    "corpus": stage(
        "cp src.txt corpus.txt", ["src.txt"], ["corpus.txt"], meta={"resources": {"cpus": 2}}
    ),
    "rubrics": stage("cp corpus.txt rubrics.txt", ["corpus.txt"], ["rubrics.txt"]),
    "judge": stage(
        "cp corpus.txt judge.txt", ["corpus.txt"], ["judge.txt"], meta={"resources": {"gpus": 2}}
    ),
    "own": stage("cp judge.txt own.txt", ["judge.txt"], ["own.txt"]),
    "apart": stage(
        "cp src.txt apart.txt", ["src.txt"], ["apart.txt"], meta={"resources": {"gpus": 1}}
    ),
}


def log_of(stage_name: str, seconds: float, **more: Any) -> dict[str, Any]:
    variant = {"corpus": "atlas", "rubrics": "gold_entity_chain", "judge": "panel"}
    entry = {"stage": stage_name, "variant": variant.get(stage_name, ""), "profile": "tiny"}
    return {**entry, "status": "ok", "seconds": seconds, **more}


@pytest.fixture
def unrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project in which nothing has run."""
    project = make_project(tmp_path / "project", PREDICTED)
    monkeypatch.setenv("DVC_SITE_CACHE_DIR", project.environment["DVC_SITE_CACHE_DIR"])
    return project


def remember(project: Project, *entries: dict[str, Any]) -> None:
    lines = [json.dumps(entry) for entry in entries]
    project.write(".longline/runs.jsonl", "\n".join([*lines, '{"torn']))


def predicted(plan: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["stage"]: row["predicted"] for row in plan["stages"]}


def test_unknown_says_unknown(unrun: Project) -> None:
    plan = make(unrun)
    for prediction in predicted(plan).values():
        assert prediction == {
            "seconds": None, "tokens": None, "cost": None, "basis": "no earlier run"
        }  # fmt: skip
    assert plan["predicted_seconds"] is None
    assert plan["critical_path"] == ["corpus", "judge", "own"]  # the longest chain
    text = longline(unrun, "plan").output
    assert "predicted time: unknown (no earlier run)" in text
    assert "predicted tokens: unknown; cost: unknown" in text
    assert "GPUs needed: 2" in text
    assert "next: longline run\n" in text


def test_predictions_come_from_earlier_runs(unrun: Project) -> None:
    other = log_of("corpus", 1000.0, profile="smoke")
    failed = log_of("corpus", 2000.0, status="failed")
    variant = log_of("corpus", 3000.0, variant="files")
    corpus = [log_of("corpus", seconds) for seconds in (900.0, 5.0, 7.0, 6.0, 30.0, 4.0)]
    remember(
        unrun,
        *corpus, other, failed, variant,
        log_of("rubrics", 100.0, tokens={"prompt": 10, "completion": 5}, cost=0.25),
        log_of("judge", 20.0, tokens={"prompt": 1000}, cost=0.5),
    )  # fmt: skip
    plan = make(unrun)
    found = predicted(plan)
    # The median of the last five of this variant and profile that ended well.
    assert found["corpus"]["seconds"] == 6.0
    assert found["corpus"]["basis"] == "5 runs of atlas, profile tiny"
    assert found["corpus"]["tokens"] is None
    assert found["rubrics"]["tokens"] == 15
    assert found["rubrics"]["cost"] == 0.25
    assert found["own"]["seconds"] is None
    assert plan["critical_path"] == ["corpus", "rubrics"]
    assert plan["predicted_seconds"] == 106.0
    text = longline(unrun, "plan").output
    assert "critical path: corpus > rubrics" in text
    assert "predicted time: at least 2 min 6 s of work; 2 unknown" in text
    assert "predicted tokens: at least 1,015; cost: at least 0.75" in text


def test_a_run_of_the_same_inputs_predicts_best(unrun: Project) -> None:
    row = make(unrun)["stages"][0]
    remember(unrun, log_of("corpus", 50.0, identity=row["identity"]), log_of("corpus", 1.0))
    found = predicted(make(unrun))["corpus"]
    assert (found["seconds"], found["basis"]) == (50.0, "1 run of the same inputs")
    unrun.write("src.txt", "changed\n")
    found = predicted(make(unrun))["corpus"]
    assert (found["seconds"], found["basis"]) == (25.5, "2 runs of atlas, profile tiny")


def test_what_does_not_run_takes_nothing(unrun: Project, forks: Forks) -> None:
    forks.run(unrun, "dvc", "repro")
    remember(unrun, *(log_of(name, 10.0, cost=1.0) for name in PREDICTED))
    (unrun.path / "judge.txt").unlink()
    plan = make(unrun)
    assert {p["seconds"] for p in predicted(plan).values()} == {0.0}
    assert (plan["will_run"], plan["critical_path"], plan["predicted_seconds"]) == ([], [], 0)
    assert plan["gpus"] == 0
    text = longline(unrun, "plan").output
    assert "4 fresh, 1 restored, 0 to run\nnothing to compute\nnext: longline report" in text


def test_gpus_are_those_that_run(unrun: Project, forks: Forks) -> None:
    assert make(unrun)["gpus"] == 2
    forks.run(unrun, "dvc", "repro")
    (unrun.path / ".dvc/cache/runs").rename(unrun.path / "runs")
    unrun.stages(apart={**PREDICTED["apart"], "cmd": "cat src.txt > apart.txt"})
    plan = make(unrun)
    assert (plan["will_run"], plan["gpus"]) == (["apart"], 1)
    resources = {row["stage"]: row["resources"] for row in plan["stages"]}
    assert resources["judge"] == {"cpus": 1, "gpus": 2}
    assert resources["corpus"] == {"cpus": 2, "gpus": 0}


def test_the_same_inputs_have_the_same_identity_everywhere(
    unrun: Project, forks: Forks, tmp_path: Path
) -> None:
    """Whatever has run before, here or nowhere: ablations and predictions go by it."""
    folder = {"read": stage("cat inputs/* > read.txt", ["inputs"], ["read.txt"])}
    unrun.stages(**folder)
    unrun.write("inputs/src-a.txt", "a\n")

    def identities() -> dict[str, str]:
        return {row["stage"]: row["identity"] for row in make(unrun)["stages"]}

    fresh = identities()
    forks.run(unrun, "dvc", "repro")
    assert identities() == fresh
    unrun.stages(read={**folder["read"], "deps": ["src.txt"]})  # inputs is not in dvc.lock then
    forks.run(unrun, "dvc", "repro")
    unrun.stages(**folder)
    assert identities() == fresh
    unrun.write("src.txt", "changed\n")
    changed = {name for name, one in identities().items() if one != fresh[name]}
    assert changed == set(PREDICTED)


def test_the_words_and_the_json_agree(unrun: Project) -> None:
    """The table that people read, in a process of its own."""
    done = unrun.longline("plan", "judge", "-S", "distractors.seed=7", "--force")
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert [line.split()[:2] for line in lines[1:3]] == [["corpus", "run"], ["judge", "run"]]
    assert lines[-1] == "next: longline run judge -S distractors.seed=7 --force"
    plan = json.loads(unrun.longline("plan", "judge", "--force", "--json").stdout)
    assert plan["will_run"] == ["corpus", "judge"]
    assert plan["targets"] == ["judge"]
