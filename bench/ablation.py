"""The same grid by `longline ablate` and by DVC's experiment queue, in one run: wall time, how
often a stage ran, for how many seconds, and how many cells succeeded.

    python bench/ablation.py [--scale 3]
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from waiting import executions, make_project, timed

AXES = {
    "distractors": ["random", "tiered"],
    "policy/reward": ["outcome", "entity_rubric"],
    "seed.train": ["0", "1", "2"],
}
# name: (seconds, upstream, parameter keys); which axis reaches which stage is as in the pipeline.
GRAPH: dict[str, tuple[float, list[str], list[str]]] = {
    "corpus": (4, [], ["corpus"]),
    "synthesize": (4, ["corpus"], ["synthesize"]),
    "distractors": (4, ["synthesize"], ["distractors"]),
    "warmup": (8, ["distractors"], ["warmup"]),
    "reward_model": (6, ["warmup"], ["reward_model"]),
    "policy": (8, ["warmup", "reward_model"], ["policy"]),
    "evaluate": (4, ["policy"], ["evaluate"]),
}
JOBS = (4, 12)
"""Cells that DVC's queue runs at once. `longline ablate` has no such number: waiting stages take no
CPU, so everything that can run does."""
WORDS = [word for key, values in AXES.items() for word in ("-S", f"{key}={','.join(values)}")]
CELLS = len(list(itertools.product(*AXES.values())))


@dataclass(frozen=True)
class Measured:
    """One side of the comparison."""

    name: str
    wall: float
    ran: Counter[str]
    cells: int
    """Cells whose experiment holds the last stage's metric."""


def ablate(folder: Path, scale: float) -> tuple[Measured, Measured]:
    """`longline ablate`, and once more."""
    environment = make_project(folder, scaled(scale))
    command = (sys.executable, "-m", "pipelines.cli", "ablate", *WORDS, "--name", "bench", "-y",
               "--metric", "evaluate.value")  # fmt: skip
    found = []
    for name in ("longline ablate", "again"):
        wall = timed(folder, environment, *command)
        found.append(Measured(name, wall, executions(environment), cells(folder, environment)))
    return found[0], found[1]


def queue(folder: Path, scale: float, jobs: int) -> Measured:
    """DVC's experiment queue."""
    environment = make_project(folder, scaled(scale))
    wall = timed(folder, environment, "dvc", "exp", "run", "--queue", *WORDS)
    wall += timed(folder, environment, "dvc", "exp", "run", "--run-all", "--jobs", str(jobs))
    return Measured(
        f"queue, {jobs} jobs", wall, executions(environment), cells(folder, environment)
    )


def scaled(scale: float) -> dict[str, tuple[float, list[str], list[str]]]:
    return {name: (scale * graph[0], graph[1], graph[2]) for name, graph in GRAPH.items()}


def cells(folder: Path, environment: Mapping[str, str]) -> int:
    """How many experiments hold the metric of the last stage, as `dvc exp show` has it."""
    shown = subprocess.run(
        ["dvc", "exp", "show", "--json"], cwd=folder, env=dict(environment),
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    experiments = [
        revision["data"]
        for commit in json.loads(shown)
        for experiment in commit.get("experiments") or []
        for revision in experiment["revs"]
    ]
    metric = "reports/evaluate.json"
    return sum(
        "value" in (((one or {}).get("metrics") or {}).get(metric, {}).get("data") or {})
        for one in experiments
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=3.0, help="times the seconds of every stage")
    scale = parser.parse_args().scale
    with tempfile.TemporaryDirectory() as temporary:
        first, again = ablate(Path(temporary) / "ours", scale)
        others = [queue(Path(temporary) / f"queue{jobs}", scale, jobs) for jobs in JOBS]
    path = scale * sum(seconds for seconds, _, _ in GRAPH.values())
    print(f"{CELLS} cells, {CELLS * len(GRAPH)} stages; a cell alone waits {path:.0f} s")
    print(f"{'':18}{'wall s':>8}{'ratio':>7}{'stages':>8}{'stage s':>9}{'cells':>7}")
    for one in (first, again, *others):
        seconds = sum(scale * GRAPH[name][0] * count for name, count in one.ran.items())
        print(
            f"{one.name:18}{one.wall:8.1f}{one.wall / first.wall:7.2f}{one.ran.total():8}"
            f"{seconds:9.0f}{one.cells:4} of {CELLS}"
        )


if __name__ == "__main__":
    main()
