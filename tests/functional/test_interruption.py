"""A stage that is killed leaves the old dataset or the new one, never half of either."""

from __future__ import annotations

import hashlib
import random
import signal
import time
from pathlib import Path

import yaml

from tests.functional.dags import Project
from tests.functional.forks import Forks
from tests.functional.processes import Running
from tests.repository import Repository


def fingerprint(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        digest.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


def test_kill_at_random_moments(copy_of_finished: Repository) -> None:
    repository = copy_of_finished
    old = fingerprint(repository.path / "data/questions")
    params = repository.path / "params.yaml"
    values = yaml.safe_load(params.read_text(encoding="utf-8"))
    values["synthesize"]["seed"] = 7
    params.write_text(yaml.safe_dump(values), encoding="utf-8")

    def start() -> Running:
        project = Project(repository.path, repository.environment)
        return Forks().start(project, "stages", "synthesize")

    start().wait()  # the first fork waits until everything is imported
    started = time.monotonic()
    start().wait()
    whole = time.monotonic() - started
    new = fingerprint(repository.path / "data/questions")
    assert new != old

    generator = random.Random(0)
    values["synthesize"]["seed"] = 8
    params.write_text(yaml.safe_dump(values), encoding="utf-8")
    killed = 0
    seen = {new}
    for _ in range(10):
        running = start()
        time.sleep(generator.uniform(0.0, 1.0) * whole)
        running.send(signal.SIGKILL)
        running.wait(None)
        killed += running.status == -signal.SIGKILL
        seen.add(fingerprint(repository.path / "data/questions"))
    assert killed
    start().wait()
    last = fingerprint(repository.path / "data/questions")
    assert seen <= {new, last}
    assert not list((repository.path / ".work").glob("synthesize-*"))
