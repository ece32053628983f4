"""The shipped configurations, and ways to change a value of them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.deploy.config import Kubernetes, Slurm
from tests.conftest import ROOT

CONF = ROOT / "conf" / "deploy"


def shipped(name: str) -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load((CONF / f"{name}.yaml").read_text(encoding="utf-8"))
    return values


def kubernetes(**changed: Any) -> Kubernetes:
    return Kubernetes.model_validate({**shipped("kubernetes"), **changed})


def slurm(**changed: Any) -> Slurm:
    return Slurm.model_validate({**shipped("slurm"), **changed})


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    return tmp_path / "mine.yaml"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git repository with an empty DVC project and two commits; the first one is tagged."""
    folder = tmp_path / "project"
    (folder / ".dvc").mkdir(parents=True)
    (folder / ".dvc" / "config").touch()
    (folder / ".dvc" / ".gitignore").write_text("/config.local\n/tmp\n/cache\n")
    for name in ("one", "two"):
        (folder / "file").write_text(name)
        git(folder, "init", "-q")
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", name)
        git(folder, "tag", name)
    return folder


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=Tester", "-c", "user.email=tester@example.org"]
    done = subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def project(workspace: Path) -> Path:
    """The current folder: a project in which everything is committed."""
    shutil.copy2(ROOT / "dvc.yaml", workspace)
    git(workspace, "init", "-q")
    git(workspace, "add", "-A")
    git(workspace, "commit", "-qm", "project")
    return workspace
