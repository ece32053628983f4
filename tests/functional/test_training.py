"""What the training stages promise, on a real (smallest) run: rewards, advantages, prompts."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from schemas.read import Dataset
from stages.llm.library import load_documents
from stages.llm.prompts import load_template, render_prompt
from stages.rewards.combine import positive_only
from stages.rewards.group import divide_by_group_max, group_advantages
from tests.repository import Repository


def rollouts(repository: Repository) -> dict[tuple[int, str], list[dict]]:
    groups: dict[tuple[int, str], list[dict]] = defaultdict(list)
    for row in Dataset.open(repository.path / "data/rollouts").rows():
        row["parts"], row["raw"] = dict(row["parts"]), dict(row["raw"])
        groups[row["step"], row["question_id"]].append(row)
    return groups


def test_recorded_advantages_are_those_of_grpo(finished: Repository) -> None:
    groups = rollouts(finished)
    assert groups
    for rows in groups.values():
        assert len(rows) == 8
        expected = group_advantages([row["reward"] for row in rows])
        assert [row["advantage"] for row in rows] == pytest.approx(expected, abs=1e-4)


def test_recorded_parts_make_the_reward(finished: Repository) -> None:
    """LongTraceRL: the rubric over its group's maximum, and nothing for a wrong outcome."""
    for rows in rollouts(finished).values():
        rubric = divide_by_group_max([row["raw"]["rubric"] for row in rows])
        for row, value in zip(rows, rubric, strict=True):
            assert row["parts"]["rubric"] == pytest.approx(value)
            assert row["reward"] == pytest.approx(
                positive_only(row["parts"]["outcome"], value, 0.3)
            )


def test_every_step_is_recorded_whole(finished: Repository) -> None:
    per_step: dict[int, int] = defaultdict(int)
    for (step, _), rows in rollouts(finished).items():
        per_step[step] += len(rows)
    assert dict(per_step) == {0: 16, 1: 16}


def test_prompts_carry_no_ids_and_no_roles(finished: Repository) -> None:
    data = finished.path / "data"
    questions = {row["question_id"]: row for row in Dataset.open(data / "questions").rows()}
    documents, chunks = Dataset.open(data / "documents"), Dataset.open(data / "chunks")
    seen = 0
    for context in Dataset.open(data / "contexts").rows("view = 'long'"):
        ids = [entry["doc_id"] for entry in context["documents"]]
        library = load_documents(documents, chunks, ids)
        question = questions[context["question_id"]]
        prompt = render_prompt(
            load_template("plain"), question["question"], [library[i] for i in ids]
        )
        seen += 1
        for secret in (*ids, *question["gold_chunk_ids"], question["question_id"], "gold"):
            assert secret not in prompt.text
        assert list(prompt.markers.values()) == list(range(1, len(prompt.markers) + 1))
    assert seen


@pytest.mark.parametrize(
    ("reward", "terms"),
    [("outcome", {"outcome"}), ("reward_model", {"reward_model", "outcome"})],
)
def test_the_other_rewards_train(
    copy_of_finished: Repository, reward: str, terms: set[str]
) -> None:
    longline = (sys.executable, "-m", "pipelines.cli")
    copy_of_finished.run(*longline, "params", "compose", f"policy/reward={reward}")
    copy_of_finished.run(sys.executable, "-m", "stages", "policy")
    for rows in rollouts(copy_of_finished).values():
        for row in rows:
            assert set(row["parts"]) == terms
            assert row["reward"] == pytest.approx(row["parts"][reward], abs=1e-6)
    metrics = json.loads((copy_of_finished.path / "reports/policy.json").read_text())
    assert metrics["rewards_failed"] == 0


def test_pairs_over_the_length_are_an_error(copy_of_finished: Repository) -> None:
    longline = (sys.executable, "-m", "pipelines.cli")
    copy_of_finished.run(*longline, "params", "compose", "reward_model.max_length=40")
    done = copy_of_finished.run(sys.executable, "-m", "stages", "reward_model", check=False)
    assert done.returncode == 1
    assert "longer than max_length=40 tokens" in done.stderr
    assert "-S reward_model.max_length=" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_reward_model_never_trained_on_test(finished: Repository) -> None:
    pairs = list(Dataset.open(finished.path / "data/preferences").rows())
    metrics = json.loads((finished.path / "reports/reward_model.json").read_text())
    assert metrics["pairs_trained"] == sum(pair["split"] == "train" for pair in pairs)
    assert any(pair["split"] == "test" for pair in pairs)


def weights(folder: Path) -> dict[str, Any]:
    """Every tensor of a saved model."""
    from safetensors.torch import load_file

    return {name: value for file in folder.glob("*.safetensors") for name, value in
            load_file(file).items()}  # fmt: skip


def test_adapters_train_on_two_processes(copy_of_finished: Repository) -> None:
    """LoRA, in micro-batches, under Accelerate's launcher: whole models, every rollout, once."""
    repository = copy_of_finished
    (repository.path / "two.yaml").write_text(
        "distributed_type: MULTI_CPU\nnum_processes: 2\nnum_machines: 1\nmachine_rank: 0\n"
        "main_process_port: 0\nuse_cpu: true\nmixed_precision: 'no'\n"
    )
    repository.run(
        sys.executable, "-m", "pipelines.cli", "params", "compose", "adapter=lora",
        "adapter.rank=4", "runtime.accelerate=two.yaml", "runtime.micro_batch=2",
    )  # fmt: skip
    before = {name: weights(repository.path / "models" / name) for name in ("warmup", "policy")}
    logged = (repository.path / ".longline/runs.jsonl").read_text().count("\n")
    for stage in ("reward_model", "policy"):
        ran = repository.run(sys.executable, "-m", "stages", stage)
        assert ran.stderr.count(f"{stage} done in") == 1  # one process speaks
    assert (repository.path / ".longline/runs.jsonl").read_text().count("\n") == logged + 2

    per_step: dict[int, int] = defaultdict(int)
    for (step, _), rows in rollouts(repository).items():
        assert len(rows) == 8
        expected = group_advantages([row["reward"] for row in rows])
        assert [row["advantage"] for row in rows] == pytest.approx(expected, abs=1e-4)
        per_step[step] += len(rows)
    assert dict(per_step) == {0: 16, 1: 16}

    after = weights(repository.path / "models/policy")
    assert after.keys() == before["policy"].keys()  # the adapter is in the weights
    changed = {name for name, value in after.items() if not value.equal(before["warmup"][name])}
    assert changed
    assert not any("norm" in name or "embed" in name for name in changed)  # nothing else is trained
    assert not list((repository.path / ".work").glob("*"))


def test_a_step_that_does_not_divide(copy_of_finished: Repository) -> None:
    repository = copy_of_finished
    longline = (sys.executable, "-m", "pipelines.cli", "params", "compose")
    repository.run(*longline, "runtime.micro_batch=3")
    ran = repository.run(sys.executable, "-m", "stages", "policy", check=False)
    assert ran.returncode == 1
    assert "error: runtime.micro_batch (3) does not divide the 16 sequences of a step" in ran.stderr
    repository.run(*longline, "runtime.accelerate=missing.yaml")
    ran = repository.run(sys.executable, "-m", "stages", "policy", check=False)
    assert ran.returncode == 1
    assert "fix: accelerate config --config_file missing.yaml" in ran.stderr
