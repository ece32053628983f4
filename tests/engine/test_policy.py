"""GRPO with vLLM in the training process: every rollout kept, and drawn from the newest weights."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections import defaultdict
from contextlib import chdir
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pipelines.params import compose_text
from schemas.read import Dataset
from stages.corpus._tokenizer import WordLevelTokenizer, make_tokenizer
from stages.rewards.group import group_advantages
from tests.conftest import ROOT, WORDS
from tests.unit.stages.library import PASSAGES, put_library

OVERRIDES = [
    "adapter=full",
    "policy.group=4",
    "policy/reward=outcome",
    "+policy.reward.terms.form={kind: format}",
    "+policy.reward.combine.weights.form=1.0",
    "policy.max_completion_length=12",
    "policy.optimisation={steps: 2, batch: 8, learning_rate: 1.0e-2, warmup_steps: 0, "
    "schedule: constant_with_warmup, weight_decay: 0.0}",
    "runtime.device=cpu",
    "runtime.rollouts.engine=vllm_colocate",
    "runtime.rollouts.kv_cache_gib=0.25",
    "runtime.rollouts.enforce_eager=true",
]


LAYOUT = ("</think>", "Answer", ":", "Paris", "<eos>")
"""What the model below often writes, so that some of its answers are well formed, and some not."""


def save_llama(folder: Path) -> None:
    """A Llama with a word-level tokenizer of the passages: random weights, and a habit."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    with chdir(folder):
        config = WordLevelTokenizer(kind="word_level", max_words=200, markers=16, words=WORDS)
        tokenizer = make_tokenizer(config, [f"{title} {text}" for title, text in PASSAGES])
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=64,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            max_position_embeddings=512,
            initializer_range=0.05,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=tokenizer.eos_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
    )
    words = [tokenizer.convert_tokens_to_ids(word) for word in LAYOUT]
    with torch.no_grad():
        seen, written = model.model.embed_tokens.weight, model.lm_head.weight
        seen.normal_()
        seen[:, 0] = 3.0
        written[words[0], 0] = 0.5  # after anything
        for before, after in pairwise(words):
            written[after] += seen[before] * torch.tensor([0.0] + [0.15] * 63)
    model.save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)


def train(folder: Path, *overrides: str) -> subprocess.CompletedProcess[str]:
    text = compose_text([*OVERRIDES, *overrides], root=ROOT)
    (folder / "params.yaml").write_text(text, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "stages", "policy"], cwd=folder, capture_output=True, text=True,
        timeout=600,
    )  # fmt: skip


@pytest.fixture
def project(workspace: Path) -> Path:
    put_library(workspace)
    (workspace / "models" / "warmup").mkdir(parents=True)
    save_llama(workspace / "models" / "warmup")
    return workspace


def test_two_steps_with_vllm_in_the_training_process(project: Path) -> None:
    ran = train(project)
    assert ran.returncode == 0, ran.stderr[-3000:]
    groups: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
    for row in Dataset.open(project / "data" / "rollouts").rows():
        groups[row["step"], row["question_id"]].append(row)
    assert sorted(step for step, _ in groups) == [0, 0, 1, 1]
    assert any(row["advantage"] for rows in groups.values() for row in rows)  # something is learned
    for rows in groups.values():
        assert len(rows) == 4
        wanted = group_advantages([row["reward"] for row in rows])
        assert [row["advantage"] for row in rows] == pytest.approx(wanted, abs=1e-4)
    assert json.loads((project / "reports" / "policy.json").read_text())["rollouts"] == 16
    with (project / "reports" / "plots" / "policy.csv").open(encoding="utf-8") as file:
        differences = [float(row["engine_difference"]) for row in csv.DictReader(file)]
    assert len(differences) == 2
    assert max(differences) < 1e-3  # vLLM had the weights of each step


def test_too_little_memory_is_told_before_a_model_is_loaded(project: Path) -> None:
    ran = train(project, "runtime.rollouts.kv_cache_gib=0.00001")
    assert ran.returncode == 1
    assert "GiB for keys and values hold" in ran.stderr
    assert "Traceback" not in ran.stderr
