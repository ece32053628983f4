"""A real git and DVC repository of this project, in which the smallest profile has run once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Repository:
    """A project folder and the environment that its commands run in."""

    path: Path
    environment: dict[str, str]

    def run(
        self, *command: str, check: bool = True, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the folder; with `check`, fail the test with its output."""
        done = subprocess.run(
            command,
            cwd=self.path,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=900,
        )
        if check and done.returncode:
            pytest.fail(f"{command} exited with {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done


def project_files() -> list[str]:
    """The project's files: what git tracks, and what is new and not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    return [name for name in listed if (ROOT / name).is_file() and not name.startswith("tests/")]


def make_repository(path: Path, profile: str = "smoke") -> Repository:
    """A committed copy of the project whose default profile is `profile`."""
    for name in project_files():
        target = path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    config = path / "conf" / "config.yaml"
    text = config.read_text(encoding="utf-8")
    assert "profile: tiny" in text
    config.write_text(text.replace("profile: tiny", f"profile: {profile}"), encoding="utf-8")
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(path),
        "DVC_NO_ANALYTICS": "1",
        "DVC_SITE_CACHE_DIR": str(path.parent / f"{path.name}-site-cache"),
        "GIT_AUTHOR_NAME": "Tester", "GIT_AUTHOR_EMAIL": "tester@example.org",
        "GIT_COMMITTER_NAME": "Tester", "GIT_COMMITTER_EMAIL": "tester@example.org",
        "COLUMNS": "200",
    }  # fmt: skip
    repository = Repository(path, environment)
    repository.run("git", "init", "-q")
    repository.run(sys.executable, "-m", "pipelines.cli", "params", "compose")
    repository.run("git", "add", "-A")
    repository.run("git", "commit", "-qm", "project")
    return repository


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """The repository after one `dvc repro`. Tests must leave its datasets as they are."""
    repository = make_repository(tmp_path_factory.mktemp("project") / "longline")
    repository.run("dvc", "repro")
    repository.run("git", "add", "-A")
    repository.run("git", "commit", "-qm", "run")
    return repository


@pytest.fixture
def copy_of_finished(finished: Repository, tmp_path: Path) -> Repository:
    """A copy that a test may change; it shares nothing with the original."""
    path = tmp_path / "longline"
    shutil.copytree(finished.path, path, symlinks=True)
    environment = {
        **finished.environment,
        "PYTHONPATH": str(path),
        "DVC_SITE_CACHE_DIR": str(tmp_path / "site-cache"),
    }
    return Repository(path, environment)
