"""A project whose stages only wait, in a temporary git and DVC repository, for the benchmarks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
STAGE = "\n".join(
    (
        "import hashlib, json, os, sys, time, yaml",
        "name, seconds, upstream, *keys = sys.argv[1:]",
        "values = yaml.safe_load(open('params.yaml'))",
        "with open(os.environ['EXECUTIONS'], 'a') as file: file.write(name + '\\n')",
        "time.sleep(float(seconds))",
        "parts = [open(f'{above}.out').read() for above in upstream.split(',') if above]",
        "parts += [json.dumps(values[key]) for key in keys]",
        "made = hashlib.sha256('\\n'.join(parts).encode()).hexdigest()",
        "os.makedirs('reports', exist_ok=True)",
        "json.dump({'value': int(made[:6], 16)}, open(f'reports/{name}.json', 'w'))",
        "open(f'{name}.out', 'w').write(made)",
    )
)
"""What it makes follows from all its parameters and all that it takes from upstream, as in the
pipeline: stages with different inputs never make the same by chance."""


def make_project(
    folder: Path, stages: Mapping[str, tuple[float, Sequence[str], Sequence[str]]]
) -> dict[str, str]:
    """Write the project; `stages` maps a name to its seconds, upstream and parameter keys.

    Returns the environment that its commands run in; `EXECUTIONS` names the file that counts.
    """
    for name in ("conf", "pipelines/hydra", ".dvc/config", "params.yaml"):
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy2(source, target)
    (folder / "stage.py").write_text(STAGE, encoding="utf-8")
    described = {
        name: {
            "cmd": f"python stage.py {name} {seconds} '{','.join(upstream)}' {' '.join(keys)}",
            "deps": ["stage.py", *(f"{above}.out" for above in upstream)],
            **({"params": keys} if keys else {}),
            "outs": [f"{name}.out"],
            "metrics": [{f"reports/{name}.json": {"cache": False}}],
            "meta": {"resources": {"cpus": 0}},
        }
        for name, (seconds, upstream, keys) in stages.items()
    }
    (folder / "dvc.yaml").write_text(yaml.safe_dump({"stages": described}, sort_keys=False))
    (folder / ".gitignore").write_text("*.out\n/.longline/\n__pycache__/\n/executions\n")
    own = str(Path(sys.executable).parent)
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([own, os.environ["PATH"]]),
        "PYTHONPATH": str(ROOT),
        "EXECUTIONS": str(folder.parent / f"{folder.name}-executions"),
        "PREFECT_HOME": str(folder.parent / "prefect"),
        "DVC_SITE_CACHE_DIR": str(folder.parent / "site-cache"),
        "GIT_AUTHOR_NAME": "bench", "GIT_AUTHOR_EMAIL": "bench@example.org",
        "GIT_COMMITTER_NAME": "bench", "GIT_COMMITTER_EMAIL": "bench@example.org",
    }  # fmt: skip
    environment.pop("PREFECT_API_URL", None)
    for command in (["git", "init", "-q"], ["git", "add", "-A"], ["git", "commit", "-qm", "start"]):
        subprocess.run(command, cwd=folder, env=environment, check=True)
    return environment


def timed(folder: Path, environment: Mapping[str, str], *command: str) -> float:
    """Seconds that a command takes; it must succeed."""
    started = time.perf_counter()
    done = subprocess.run(
        command, cwd=folder, env=dict(environment), capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{command} failed\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return time.perf_counter() - started


def executions(environment: Mapping[str, str]) -> Counter[str]:
    """How often each stage ran since the last call."""
    path = Path(environment["EXECUTIONS"])
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return Counter(lines)
