"""The script for sbatch: its options, what it refuses, and that bash can read it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pipelines.deploy import slurm as module
from pipelines.deploy.slurm import Request, batch_script, options, uncommitted
from schemas.errors import UserError
from tests.unit.pipelines.deploy.conftest import git, slurm


def readable(script: str) -> None:
    checked = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True)
    assert (checked.returncode, checked.stderr) == (0, "")


def given(script: str) -> list[str]:
    """The options as sbatch finds them: in comments before the first command."""
    head = re.split(r"^[^#\n]", script, maxsplit=1, flags=re.MULTILINE)[0]
    found = re.findall(r"^#SBATCH (.*)$", head, flags=re.MULTILINE)
    assert len(found) == len(re.findall("#SBATCH", script))
    return found


def test_the_shipped_configuration(project: Path) -> None:
    script = batch_script(slurm(), Request(), project)
    readable(script)
    assert script.startswith("#!/bin/bash -l\n")
    assert given(script) == [
        "--job-name=longline", "--time=24:00:00", "--nodes=1", "--ntasks=1", "--cpus-per-task=8",
        "--mem=64G", "--gres=gpu:1", "--output=%x-%j.log", "--open-mode=append",
        "--signal=B:USR1@120", "--export=PREFECT_API_URL", "--requeue",
    ]  # fmt: skip
    assert f"LONGLINE_REVISION={git(project, 'rev-parse', 'HEAD')}\n" in script
    assert f"LONGLINE_REPOSITORY={project}\n" in script
    assert f"LONGLINE_CACHE={project}/.dvc/cache\n" in script
    assert f"LONGLINE_WORKSPACE={project.parent}/longline-workspaces/$base" in script


@pytest.mark.parametrize(
    ("changed", "option"),
    [
        ({"partition": "gpu,long"}, "--partition=gpu,long"),
        ({"account": "team_1"}, "--account=team_1"),
        ({"qos": "high"}, "--qos=high"),
        ({"constraint": "a100|h100"}, "--constraint='a100|h100'"),
        ({"gpus": 4, "gpu_type": "a100"}, "--gres=gpu:a100:4"),
        ({"requeues": 0}, "--no-requeue"),
        ({"environment": ["A", "HF_TOKEN"]}, "--export=A,HF_TOKEN"),
        ({"environment": []}, "--export=NIL"),
        ({"grace_seconds": 600}, "--signal=B:USR1@600"),
    ],
)
def test_options(changed: dict[str, Any], option: str) -> None:
    assert option in options(slurm(**changed), 0)


def test_no_gpu_and_an_array() -> None:
    listed = options(slurm(gpus=0, array_parallel=2), 3)
    assert not [option for option in listed if "gres" in option]
    assert "--array=0-2%2" in listed
    assert "--array=0-2" in options(slurm(), 3)


def test_every_form_can_be_read_by_bash(project: Path) -> None:
    hostile = ["corpus.path='a b $(id) `id` \"q\"'", "corpus.path='x;#|&>'"]
    for config in (slurm(), slurm(modules=["python/3.11"], requeues=0, gpus=0, environment=[])):
        for variations in ((), hostile):
            request = Request(("judge", "policy"), hostile, variations)
            readable(batch_script(config, request, project))


def test_folders_with_strange_names(project: Path, tmp_path: Path) -> None:
    strange = 'it\'s $(touch pwned) `x` "here"'
    script = batch_script(
        slurm(workspaces=strange, cache=strange, venv=strange), Request(), project
    )
    readable(script)
    assert "pwned" in script
    for unquoted in re.sub(r"'[^']*'|\"'\"", "", script).splitlines():
        assert "pwned" not in unquoted


@pytest.mark.parametrize("text", ["a=1\nrm -rf x", "a=1\r", "a=\x00", "a=\u2028b"])
def test_a_line_break_is_refused(project: Path, text: str) -> None:
    for request in (Request(overrides=[text]), Request(variations=[text])):
        with pytest.raises(UserError, match="must be one line"):
            batch_script(slurm(), request, project)


def test_a_line_break_in_a_path_of_this_machine(tmp_path: Path) -> None:
    folder = tmp_path / "a\nb"
    folder.mkdir()
    with pytest.raises(UserError, match=r"no dvc\.yaml in"):
        batch_script(slurm(), Request(), folder)
    with pytest.raises(ValueError, match="one line"):
        module.render("slurm.sh", repository=folder, options=[], modules=[])


def test_mistakes_are_told_before_anything_is_queued(project: Path) -> None:
    with pytest.raises(UserError, match="no stage 'jugde'") as caught:
        batch_script(slurm(), Request(stages=["jugde"]), project)
    assert "judge" in (caught.value.allowed or [])
    with pytest.raises(UserError, match="distractors=nonsense"):
        batch_script(slurm(), Request(overrides=["distractors=nonsense"]), project)
    with pytest.raises(UserError, match=r"candidates\.samples"):
        batch_script(slurm(), Request(variations=["candidates.samples=1"]), project)
    batch_script(slurm(), Request(["params", "judge"], variations=["seed.train=1"]), project)


def test_only_what_is_committed_can_run(project: Path, tmp_path_factory: Any) -> None:
    assert not uncommitted(project)
    (project / "dvc.yaml").write_text((project / "dvc.yaml").read_text() + "\n")
    assert uncommitted(project)
    with pytest.raises(UserError, match="has no commit 'nowhere'"):
        batch_script(slurm(revision="nowhere"), Request(), project)
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(UserError, match="has no commit 'HEAD'"):
        batch_script(slurm(repository=str(empty)), Request(), project)


def test_no_value_of_the_environment_is_written(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HF_TOKEN", "PREFECT_API_KEY", "PREFECT_API_URL"):
        monkeypatch.setenv(name, "hunter2-planted")
    config = slurm(environment=["HF_TOKEN", "PREFECT_API_KEY", "PREFECT_API_URL"])
    script = batch_script(config, Request(), project)
    assert "--export=HF_TOKEN,PREFECT_API_KEY,PREFECT_API_URL" in given(script)
    assert "hunter2-planted" not in script
