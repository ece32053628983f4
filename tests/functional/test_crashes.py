"""`longline run` killed at random moments: a true dvc.lock, whole outputs, no stale lock."""

from __future__ import annotations

import hashlib
import json
import random
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.functional.dags import Project, noted, stage
from tests.functional.forks import Forks
from tests.functional.prefect_api import Api, states
from tests.functional.processes import SHORT, Running, wait_until

FOUR = ("--cpus", "4")
CRASHING = {
    "left": noted("left", ["src.txt"], "sleep=0.3", "hold=hold.txt", params=["distractors.seed"]),
    "right": stage(
        "python stage.py right right.txt sleep=0.1 hold=hold.txt src.txt"
        " && rm -rf folder.new && mkdir folder.new && cp right.txt folder.new/a.txt"
        " && sleep 0.2 && cp right.txt folder.new/b.txt && mv folder.new folder",
        ["stage.py", "src.txt"],
        ["right.txt", "folder"],
    ),
    "join": noted("join", ["left.txt", "right.txt"]),
}
KILLS = 20


def test_kill_at_random_moments(api: Api, tmp_path: Path) -> None:
    """After SIGKILL of the flow: no process left, a true dvc.lock, whole outputs, no stale lock."""
    project = api.project(tmp_path / "project", CRASHING)
    facts = Facts(project)
    start = Forks().start

    def begin(number: int) -> Running:
        facts.next(number)
        words = ("run", "--no-report", *FOUR, "-S", f"distractors.seed={number}")
        running = start(project, "longline", *words, constants=SHORT)
        running.until(lambda: facts.held_by(running.process.pid) or running.status is not None)
        return running

    hold = project.path / "hold.txt"
    running = begin(1)
    began = time.monotonic()
    running.wait()
    span = time.monotonic() - began
    generator = random.Random(0)
    killed = interrupted = 0
    for number in range(2, 2 + KILLS):
        if number % 2:  # at any moment; else while a stage runs
            running = begin(number)
            time.sleep(generator.uniform(0.0, span))
        else:
            hold.touch()
            running = begin(number)
            wait_until(lambda: facts.unended() > 0)
            time.sleep(generator.uniform(0.0, 0.2))
        running.send(signal.SIGKILL)
        dead = time.monotonic()
        wait_until(lambda running=running: running.status is not None)
        killed += running.status == -signal.SIGKILL
        if number == 1 + KILLS:
            break  # the next run meets what is still being stopped
        wait_until(lambda running=running: not running.left())
        hold.unlink(missing_ok=True)
        assert time.monotonic() - dead < 4 * SHORT["pipelines.run.stage.GRACE"] + 5
        facts.check(number)
        interrupted += facts.unended() > 0
    assert killed >= KILLS * 3 // 4
    assert interrupted >= KILLS // 2 - 1
    begin(number).wait()
    facts.check(number)
    assert project.status() == {}
    assert project.read("join.txt") == facts.right("join", number)
    assert set(states(api.newest())) == set(CRASHING)
    assert api.newest().state == "Completed"


@dataclass
class Facts:
    """What must be true of a project however its runs end: its stages are functions of src.txt, so
    that for every version of that the right outputs are known."""

    project: Project
    known: dict[str, tuple[str, int]] = field(default_factory=dict)
    """MD5 of everything that was ever right -> what it is, and of which version."""

    def next(self, number: int) -> None:
        """Another version of src.txt."""
        self.project.forget_notes()
        self.project.write("src.txt", f"source {number}\n")
        self.known[md5(f"source {number}\n")] = ("src.txt", number)
        for name in CRASHING:
            self.known[md5(self.right(name, number))] = (f"{name}.txt", number)
        one = md5(self.right("right", number))
        self.known[listing({"a.txt": one, "b.txt": one})] = ("folder", number)

    @staticmethod
    def right(name: str, number: int) -> str:
        left, right = f"left\nsource {number}\n", f"right\nsource {number}\n"
        return {"left": left, "right": right, "join": f"join\n{left}{right}"}[name]

    def held_by(self, pid: int | None) -> bool:
        path = self.project.path / ".longline/run.lock"
        return path.exists() and f'"pid": {pid},' in path.read_text(encoding="utf-8")

    def check(self, number: int) -> None:
        """dvc.lock is true, and what it says is in the workspace, or is known to be out of date."""
        path = self.project.path / "dvc.lock"
        lock = yaml.safe_load(path.read_text(encoding="utf-8"))
        for entry in lock["stages"].values():
            deps = {dep["path"]: dep["md5"] for dep in entry["deps"] if dep["path"] != "stage.py"}
            versions = {self.known[digest][1] for digest in deps.values()}
            assert [self.known[digest][0] for digest in deps.values()] == [*deps]
            assert len(versions) == 1
            current = all(self.digest(dep) == digest for dep, digest in deps.items())
            for out in entry["outs"]:
                assert self.known[out["md5"]] == (out["path"], *versions)
                found = self.digest(out["path"])
                if found is not None:  # it is whole, of whichever version
                    assert self.known[found][0] == out["path"]
                    assert found == out["md5"] or not current
        assert seed(self.project) in (number - 1, number)

    def digest(self, name: str) -> str | None:
        """The MD5 of a file or folder as DVC has it; None where it is not there."""
        path = self.project.path / name
        if path.is_dir():
            return listing({one.name: md5(one.read_text()) for one in sorted(path.iterdir())})
        return md5(path.read_text(encoding="utf-8")) if path.exists() else None

    def unended(self) -> int:
        """How many stages have begun and not ended."""
        events = [entry["event"] for entry in self.project.raw_notes()]
        return events.count("start") - events.count("end")


def md5(text: str) -> str:
    return hashlib.md5(text.encode()).hexdigest()


def listing(files: dict[str, str]) -> str:
    """The MD5 of a folder with these files, as DVC makes it."""
    return md5(json.dumps([{"md5": md5, "relpath": name} for name, md5 in files.items()])) + ".dir"


def seed(project: Project) -> int:
    return int(yaml.safe_load(project.read("params.yaml"))["distractors"]["seed"])
