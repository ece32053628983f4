"""Wall time of `longline run` on a graph of waiting stages, beside its critical path and
`dvc repro`, and both with nothing to do; all in one run:

    python bench/parallel.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from waiting import make_project, timed

LONGLINE = (sys.executable, "-m", "pipelines.cli", "run", "--no-report")
# name: (seconds, upstream, parameter keys); eleven stages, shaped like the pipeline.
GRAPH: dict[str, tuple[float, list[str], list[str]]] = {
    "corpus": (15, [], ["corpus"]),
    "synthesize": (10, ["corpus"], []),
    "distractors": (15, ["synthesize"], []),
    "rubrics": (20, ["synthesize"], []),
    "warmup": (30, ["distractors"], []),
    "tokens": (25, ["corpus"], []),
    "candidates": (20, ["warmup"], []),
    "judge": (15, ["candidates", "rubrics"], []),
    "policy": (40, ["warmup", "rubrics"], []),
    "probe": (20, ["warmup"], []),
    "evaluate": (15, ["judge", "policy", "probe", "tokens"], []),
}


def critical_path() -> float:
    """Seconds of the longest chain."""
    ends: dict[str, float] = {}
    for name, (seconds, upstream, _) in GRAPH.items():
        ends[name] = seconds + max((ends[above] for above in upstream), default=0.0)
    return max(ends.values())


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        ours, plain = Path(temporary) / "ours", Path(temporary) / "plain"
        environment = make_project(ours, GRAPH)
        timed(ours, environment, *LONGLINE, "corpus", "-S", "corpus.seed=99")  # Prefect's database
        run = timed(ours, environment, *LONGLINE)
        again = min(timed(ours, environment, *LONGLINE) for _ in range(3))
        timed(ours, environment, "dvc", "status")
        other = make_project(plain, GRAPH)
        repro = timed(plain, other, "dvc", "repro")
        repro_again = min(timed(plain, other, "dvc", "repro") for _ in range(3))
    path, work = critical_path(), sum(seconds for seconds, _, _ in GRAPH.values())
    print(f"critical path {path:.0f} s, all stages {work:.0f} s")
    print(f"{'':24}{'longline run':>14}{'dvc repro':>12}")
    print(f"{'seconds':24}{run:14.1f}{repro:12.1f}")
    print(f"{'over the critical path':24}{run / path:14.2f}{repro / path:12.2f}")
    print(f"{'nothing to do, seconds':24}{again:14.2f}{repro_again:12.2f}")


if __name__ == "__main__":
    main()
