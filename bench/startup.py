"""Start-up costs, side by side: `longline --help` against a bare interpreter, and a no-op
`dvc repro` against `dvc --version`. Run in a project where the pipeline has run:

    python bench/startup.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time


def seconds(command: list[str], rounds: int = 7) -> float:
    """Median wall time of a command."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def main() -> None:
    pairs = {
        "longline --help": (["longline", "--help"], [sys.executable, "-c", "pass"]),
        "dvc repro (nothing to do)": (["dvc", "repro"], ["dvc", "--version"]),
    }
    print(f"{'command':28}{'seconds':>9}{'base':>9}{'ratio':>8}")
    for name, (command, base) in pairs.items():
        measured, floor = seconds(command), seconds(base)
        print(f"{name:28}{measured:9.3f}{floor:9.3f}{measured / floor:8.2f}")


if __name__ == "__main__":
    main()
