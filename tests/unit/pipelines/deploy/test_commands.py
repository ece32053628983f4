"""`longline deploy`: what is written where, and what is said."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result

from pipelines.cli import Group
from pipelines.commands.deploy import deploy
from pipelines.commands.run import run

MAIN = Group("longline", commands={"deploy": deploy})


def longline(*arguments: str, status: int = 0) -> Result:
    result = CliRunner().invoke(MAIN, ["deploy", *arguments])
    assert result.exit_code == status, result.output
    return result


def test_kubernetes(project: Path) -> None:
    shown = longline("kubernetes")
    assert set(json.loads(shown.stdout)) == {"variables", "job_configuration"}
    assert "next: prefect work-pool create NAME --type kubernetes" in shown.stderr
    written = longline("kubernetes", "--output", "pool.json")
    assert written.stdout == ""
    assert (project / "pool.json").read_text() == shown.stdout
    assert "--base-job-template pool.json" in written.stderr


def test_slurm(project: Path) -> None:
    words = ["judge", "-S", "prompt=path", "--array", "seed.train=1", "--array", "seed.train=2"]
    written = longline("slurm", *words, "-o", "run.sbatch")
    assert "an array of 2 jobs" in written.stderr
    assert "next: sbatch run.sbatch" in written.stderr
    assert "note:" not in written.stderr
    assert longline("slurm", *words).stdout == (project / "run.sbatch").read_text()
    with (project / "dvc.yaml").open("a") as stream:
        stream.write("\n")
    assert "there are changes that are not" in longline("slurm").stderr


def test_a_failure_leaves_the_file_as_it_was(project: Path) -> None:
    (project / "run.sbatch").write_text("before")
    result = longline("slurm", "nonsense", "-o", "run.sbatch", status=1)
    assert "error: no stage 'nonsense'" in result.stderr
    assert "allowed: " in result.stderr
    assert (project / "run.sbatch").read_text() == "before"
    assert not list(project.glob(".run.sbatch*"))


def test_a_configuration_of_ones_own(project: Path) -> None:
    text = (project / "conf/deploy/slurm.yaml").read_text().replace("gpus: 1", "gpus: many")
    (project / "other.yaml").write_text(text)
    result = longline("slurm", "--config", "other.yaml", status=1)
    assert "parameter 'other.gpus'" in result.stderr
    assert "fix: correct other.yaml" in result.stderr
    assert "no file nowhere.yaml" in longline("kubernetes", "--config", "nowhere.yaml",
                                              status=1).stderr  # fmt: skip


def test_longline_run_takes_what_the_script_gives_it() -> None:
    given = ["--cpus", "8", "--gpus", "1", "judge", "-S", "seed.train=1"]
    parsed = run.make_context("run", given)
    assert parsed.params["stages"] == ("judge",)
    assert parsed.params["overrides"] == ("seed.train=1",)
    assert (parsed.params["cpus"], parsed.params["gpus"]) == (8, 1)


def test_help_imports_nothing_heavy() -> None:
    script = """
import sys
from pipelines.commands.deploy import deploy
print([name for name in ("jinja2", "pydantic", "yaml", "prefect", "hydra") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
