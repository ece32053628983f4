"""Small projects of waiting and copying stages.

    project = make_project(path, {"copy": stage("cp src.txt copy.txt", ["src.txt"], ["copy.txt"])})
    project.longline("run")                     # the real command, in a process of its own

Such a project has this project's conf/ and params.yaml, so that every `-S` works, and stages that
take no time, so that a test can run it often.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.functional.processes import LONGLINE, MARK, PATIENCE, Running, quick

ROOT = Path(__file__).parents[2]
Spec = dict[str, Any]

# Notes when it starts and ends, and on which GPUs. Between them it may wait for others to begin
# (meet), for a time (sleep), or while a file is there (hold), start processes that do not want to
# end (family), fail in its first attempts (fail) or always (die), and print a variable (print).
STAGE = textwrap.dedent(
    """\
    import json, os, subprocess, sys, time
    name, out, *words = sys.argv[1:]
    def note(event):
        entry = {"stage": name, "event": event, "time": time.time(), "pid": os.getpid(),
                 "gpus": os.environ.get("CUDA_VISIBLE_DEVICES")}
        with open(os.environ["NOTES"], "a") as file:
            file.write(json.dumps(entry) + "\\n")
    def noted(event):
        entries = [json.loads(line) for line in open(os.environ["NOTES"])]
        return [entry["stage"] for entry in entries if entry["event"] == event]
    def wait(condition):
        patience = time.monotonic() + 60
        while not condition():
            if time.monotonic() > patience:
                sys.exit(f"{name} waited in vain")
            time.sleep(0.02)
    note("start")
    if name == "grandchild":
        import signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.setsid()
        if out == "orphan" and os.fork():
            os._exit(0)
        note("stays")
        time.sleep(600)
    text = []
    for word in words:
        kind, _, value = word.partition("=")
        if kind == "sleep":
            time.sleep(float(value))
        elif kind == "meet":
            wait(lambda: set(value.split(",")) <= set(noted("start")))
        elif kind == "hold":
            while os.path.exists(value):
                time.sleep(0.02)
        elif kind == "family" and os.path.exists(value):
            for manner in ("orphan", "child"):
                subprocess.Popen([sys.executable, __file__, "grandchild", manner])
            wait(lambda: len(noted("stays")) >= 2)
            note("family")
            time.sleep(600)
        elif kind == "fail":
            if noted("start").count(name) <= int(value):
                sys.exit(f"error: {name} is not ready yet")
        elif kind == "die":
            if os.path.exists(value):
                print("error: there is " + value)
                sys.exit(3)
        elif kind == "print":
            print(f"{value} is {os.environ.get(value)}")
            print(f"{value} is {os.environ.get(value)}", file=sys.stderr)
        elif kind != "family":
            text.append(open(word).read())
    with open(f"{out}.new", "w") as file:
        file.write(name + "\\n" + "".join(text))
    os.replace(f"{out}.new", out)
    note("end")
    """
)


def stage(cmd: str, deps: Sequence[str], outs: Sequence[Any], **more: Any) -> Spec:
    """A stage of dvc.yaml; `more` is params, metrics, plots, meta, desc."""
    return {"cmd": cmd, "deps": [*deps], "outs": [*outs], **more}


def noted(name: str, deps: Sequence[str], *words: str, **more: Any) -> Spec:
    """A stage that makes NAME.txt from its deps with the script above, and takes notes."""
    command = " ".join(["python stage.py", name, f"{name}.txt", *words, *deps])
    return stage(command, ["stage.py", *deps], [f"{name}.txt"], **more)


@dataclass(frozen=True)
class Note:
    """What one stage noted: when it began and ended, and on which GPUs."""

    stage: str
    start: float
    end: float
    gpus: str | None

    def overlaps(self, other: Note) -> bool:
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True)
class Project:
    """A project folder and the environment that its commands run in."""

    path: Path
    environment: dict[str, str] = field(repr=False)

    def run(
        self, *command: str, check: bool = True, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the folder; with `check`, fail the test with its output."""
        done = subprocess.run(
            command, cwd=self.path, env={**self.environment, **environment},
            capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        if check and done.returncode:
            pytest.fail(f"{command} exited with {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def longline(
        self, *arguments: str, check: bool = True, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return self.run(*LONGLINE, *arguments, check=check, **environment)

    def start(
        self, *arguments: str, constants: Mapping[str, float] | None = None, **environment: str
    ) -> Running:
        """Start `longline` and go on. `constants` are waits of the product that a test shortens."""
        mark = uuid.uuid4().hex
        output = self.path.parent / f"{self.path.name}-{mark}.log"
        with output.open("w") as file:
            process = subprocess.Popen(
                [*(quick(constants) if constants else LONGLINE), *arguments],
                cwd=self.path, env={**self.environment, MARK: mark, **environment},
                stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        return Running.now(process, output, mark)

    def notes(self) -> dict[str, Note]:
        """The last run of every stage that ended, from its own notes."""
        begun: dict[str, dict[str, Any]] = {}
        found: dict[str, Note] = {}
        for entry in self.raw_notes():
            if entry["event"] == "start":
                begun[entry["stage"]] = entry
            else:
                start = begun[entry["stage"]]["time"]
                found[entry["stage"]] = Note(
                    entry["stage"], start, entry["time"], entry["gpus"]
                )  # fmt: skip
        return found

    def raw_notes(self) -> list[dict[str, Any]]:
        path = Path(self.environment["NOTES"])
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]

    def forget_notes(self) -> None:
        Path(self.environment["NOTES"]).unlink(missing_ok=True)

    def has(self, name: str, event: str = "start") -> bool:
        """Whether a stage has noted that."""
        return any((entry["stage"], entry["event"]) == (name, event) for entry in self.raw_notes())

    def write(self, name: str, text: str) -> None:
        """Write a file whole, also where DVC has linked it to its cache."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(text, encoding="utf-8")

    def read(self, name: str) -> str:
        return (self.path / name).read_text(encoding="utf-8")

    def stages(self, **changed: Spec) -> None:
        """Add stages to dvc.yaml, or replace them."""
        described = yaml.safe_load(self.read("dvc.yaml"))
        described["stages"] |= changed
        self.write("dvc.yaml", yaml.safe_dump(described, sort_keys=False))

    def status(self) -> dict[str, Any]:
        """What `dvc status` finds changed; empty when all is up to date."""
        return dict(json.loads(self.run("dvc", "status", "--json").stdout))


def make_project(
    path: Path, stages: Mapping[str, Spec], files: Mapping[str, str] | None = None
) -> Project:
    """Write and commit a project with these stages; stage.py and src.txt are always there."""
    for name in ("conf", "pipelines/hydra"):
        shutil.copytree(
            ROOT / name, path / name, ignore=shutil.ignore_patterns("__pycache__")
        )  # fmt: skip
    for name in (".dvc/config", ".dvc/.gitignore", ".dvcignore", "params.yaml"):
        (path / name).parent.mkdir(exist_ok=True)
        shutil.copy2(ROOT / name, path / name)
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PREFECT_", "CUDA_", "LONGLINE_")) or name == "PREFECT_API_URL"
    }
    environment |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "DVC_NO_ANALYTICS": "1",
        "DVC_SITE_CACHE_DIR": str(path.parent / f"{path.name}-site-cache"),
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_HOME": str(path.parent / f"{path.name}-prefect"),
        "GIT_AUTHOR_NAME": "Tester", "GIT_AUTHOR_EMAIL": "tester@example.org",
        "GIT_COMMITTER_NAME": "Tester", "GIT_COMMITTER_EMAIL": "tester@example.org",
        "NOTES": str(path.parent / f"{path.name}-notes"),
        "COLUMNS": "200",
    }  # fmt: skip
    project = Project(path, environment)
    project.write("dvc.yaml", yaml.safe_dump({"stages": dict(stages)}, sort_keys=False))
    project.write(".gitignore", "*.txt\n!src*.txt\n/.longline/\n/reports/\n__pycache__/\n")
    for name, text in {"stage.py": STAGE, "src.txt": "source\n", **(files or {})}.items():
        project.write(name, text)
    project.run("git", "init", "-q")
    project.run("git", "add", "-A")
    project.run("git", "commit", "-qm", "project")
    return project


def copy_project(original: Project, path: Path) -> Project:
    """A copy that a test may change, with its cache."""
    shutil.copytree(original.path, path, symlinks=True)
    own = {
        name: value.replace(str(original.path), str(path))
        for name, value in original.environment.items()
        if name in ("DVC_SITE_CACHE_DIR", "PREFECT_HOME", "NOTES")
    }
    return Project(path, {**original.environment, **own})


def outcomes(output: str) -> dict[str, str]:
    """What DVC did with each stage, from what it said: run, cached or fresh."""
    patterns = {
        "run": r"^Running stage '([^']+)'",
        "cached": r"^Stage '([^']+)' is cached - skipping run",
        "fresh": r"^Stage '([^']+)' didn't change, skipping",
    }
    return {
        name: how
        for how, pattern in patterns.items()
        for name in re.findall(pattern, output, re.MULTILINE)
    }
