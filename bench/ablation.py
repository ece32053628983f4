"""The same grid by `longline ablate` and by DVC's experiment queue, in one run: wall time and how
often a stage ran.

    python bench/ablation.py
"""

from __future__ import annotations

import itertools
import sys
import tempfile
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
JOBS = "4"


def main() -> None:
    words = [word for key, values in AXES.items() for word in ("-S", f"{key}={','.join(values)}")]
    cells = list(itertools.product(*AXES.values()))
    with tempfile.TemporaryDirectory() as temporary:
        ours, queue = Path(temporary) / "ours", Path(temporary) / "queue"
        environment = make_project(ours, GRAPH)
        ablate = (sys.executable, "-m", "pipelines.cli", "ablate", *words, "--name", "bench", "-y",
                  "--metric", "evaluate.value")  # fmt: skip
        wall = timed(ours, environment, *ablate)
        ran = executions(environment)
        again = timed(ours, environment, *ablate)
        ran_again = executions(environment)
        other = make_project(queue, GRAPH)
        queued = timed(queue, other, "dvc", "exp", "run", "--queue", *words)
        ran_all = timed(queue, other, "dvc", "exp", "run", "--run-all", "--jobs", JOBS)
        ran_other = executions(other)
    print(f"{len(cells)} cells, {len(cells) * len(GRAPH)} stages; {JOBS} jobs in the queue")
    print(f"{'':28}{'longline ablate':>16}{'dvc queue':>12}{'ratio':>8}")
    total = queued + ran_all
    print(f"{'wall seconds':28}{wall:16.1f}{total:12.1f}{total / wall:8.2f}")
    print(f"{'stages that ran':28}{ran:16}{ran_other:12}{ran_other / max(ran, 1):8.2f}")
    print(f"{'again: wall seconds':28}{again:16.1f}{'':12}")
    print(f"{'again: stages that ran':28}{ran_again:16}{'':12}")


if __name__ == "__main__":
    main()
