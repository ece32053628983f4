"""A stage that is killed leaves the old dataset or the new one, never half of either."""

from __future__ import annotations

import hashlib
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import yaml

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

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "stages", "synthesize"],
            cwd=repository.path, env=repository.environment, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    started = time.monotonic()
    process = start()
    assert process.wait() == 0
    whole = time.monotonic() - started
    new = fingerprint(repository.path / "data/questions")
    assert new != old

    generator = random.Random(0)
    values["synthesize"]["seed"] = 8
    params.write_text(yaml.safe_dump(values), encoding="utf-8")
    killed = 0
    seen = {new}
    for _ in range(5):
        process = start()
        time.sleep(generator.uniform(0.5, 1.0) * whole)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            killed += 1
        process.wait()
        seen.add(fingerprint(repository.path / "data/questions"))
    assert killed
    assert start().wait() == 0
    last = fingerprint(repository.path / "data/questions")
    assert seen <= {new, last}
    assert not list((repository.path / ".work").glob("synthesize-*"))
