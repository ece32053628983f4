"""A small project whose grids run in seconds; two of its three stages are shared by many cells.

    base > data (distractors.kind) > train (policy.reward, seed.train)

Each execution notes when it began and ended, outside the project, under the name of its choices
(`train-random-positive_only-0`). A test holds one, or makes it fail, from outside too: by a change
of nothing that DVC or the product looks at.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.functional.dags import Project, Spec, copy_project, make_project

STAGE = textwrap.dedent(
    """\
    import json, os, pathlib, sys, time, yaml
    try:
        from extra import FACTOR
    except ImportError:
        FACTOR = 1
    stage, above, *keys = sys.argv[1:]
    params = yaml.safe_load(open("params.yaml"))
    chosen = json.load(open(f"{above}.out")) if above != "-" else []
    for key in keys:
        value = params
        for part in key.split("."):
            value = value[part]
        chosen.append(str(value))
    name = "-".join([stage, *chosen])
    def note(event):
        entry = {"stage": name, "event": event, "time": time.time(), "pid": os.getpid(),
                 "gpus": None, "folder": os.getcwd(),
                 "store": os.environ.get("LONGLINE_LLM_STORE")}
        with open(os.environ["NOTES"], "a") as file:
            file.write(json.dumps(entry) + "\\n")
    def told(what):
        return pathlib.Path(os.environ["NOTES"] + "-" + what, name).exists()
    note("start")
    print("the token is", os.environ.get("LONGLINE_TEST_TOKEN", "not there"))
    while told("hold"):
        time.sleep(0.02)
    if told("break"):
        sys.exit(f"error: {name} is broken")
    number = FACTOR * json.load(open("numbers.json")).get("-".join(chosen), 0)
    inputs = sum(len(path.read_text()) for path in pathlib.Path("inputs").glob("*.text"))
    os.makedirs("reports", exist_ok=True)
    with open(f"reports/{stage}.json", "w") as file:
        json.dump({"value": number, "part": {"inputs": inputs}, "name": name}, file)
    with open(f"{stage}.out", "w") as file:
        json.dump(chosen, file)
    note("end")
    """
)
COMBINED = {"outcome": "weighted_sum", "entity_rubric": "positive_only"}
"""What policy.reward.combine.kind is for a choice of policy/reward."""
NUMBERS = {
    f"{distractors}-{kind}-{seed}": value
    for distractors, kind, values in (
        ("random", "positive_only", (0.5, 0.7, 0.75)),
        ("tiered", "positive_only", (0.5, 0.75, 1.0)),
        ("random", "weighted_sum", (0.25, 0.5, 1.0)),
        ("tiered", "weighted_sum", (1.25, 1.5, 2.0)),
    )
    for seed, value in enumerate(values)
}
"""train.value by its choices."""


def grid_stage(name: str, above: str = "-", *keys: str, more: Sequence[str] = ()) -> Spec:
    return {
        "cmd": " ".join(["python stage.py", name, above, *keys]),
        "deps": ["stage.py", *([f"{above}.out"] if above != "-" else []), *more],
        "params": list(keys),
        "outs": [f"{name}.out"],
        "metrics": [{f"reports/{name}.json": {"cache": False}}],
        "meta": {"resources": {"cpus": 0}},
    }


STAGES = {
    "base": grid_stage("base", more=["inputs"]),
    "data": grid_stage("data", "base", "distractors.kind"),
    "train": grid_stage(
        "train", "data", "policy.reward.combine.kind", "seed.train", more=["numbers.json"]
    ),
}
IGNORED = "*.out\n/.longline/\n__pycache__/\n/inputs/*\n!/inputs/README.md\n"


ARMS = ("-S", "distractors=random,tiered")
REWARDS = ("-S", "policy/reward=outcome,entity_rubric")
SEEDS = ("-S", "seed.train=0,1")
METRIC = ("--metric", "train.value")


@dataclass(frozen=True)
class Grids:
    """Such a project, and what was executed in its cells."""

    project: Project

    @property
    def path(self) -> Path:
        return self.project.path

    def executions(self) -> Counter[str]:
        """How often each execution began since `forget`."""
        return Counter(
            note["stage"] for note in self.project.raw_notes() if note["event"] == "start"
        )

    def forget(self) -> None:
        self.project.forget_notes()

    @contextmanager
    def held(self, *names: str) -> Iterator[None]:
        """These executions do not end for the time of the context."""
        places = [self._switch("hold", name) for name in names]
        try:
            yield
        finally:
            for place in places:
                place.unlink(missing_ok=True)

    @contextmanager
    def broken(self, *names: str) -> Iterator[None]:
        """These executions fail for the time of the context."""
        places = [self._switch("break", name) for name in names]
        try:
            yield
        finally:
            for place in places:
                place.unlink(missing_ok=True)

    def _switch(self, kind: str, name: str) -> Path:
        place = Path(f"{self.project.environment['NOTES']}-{kind}") / name
        place.parent.mkdir(exist_ok=True)
        place.touch()
        return place

    def experiments(self) -> dict[str, str]:
        """The commit of each experiment, by its name."""
        listed = self.git("for-each-ref", "--format=%(refname) %(objectname)", "refs/exps")
        pairs = [line.split() for line in listed.splitlines()]
        return {
            reference.rpartition("/")[2]: commit
            for reference, commit in pairs
            if not reference.startswith("refs/exps/exec/")
        }

    def saved(self, name: str, file: str) -> str:
        """A file of an experiment."""
        return self.git("show", f"{self.experiments()[name]}:{file}")

    def git(self, *arguments: str) -> str:
        return self.project.run("git", *arguments).stdout

    def tree(self) -> dict[str, str]:
        """Every file of the workspace with its content; git's, DVC's and Longline's own aside."""
        found = {}
        for path in sorted(self.path.rglob("*")):
            name = path.relative_to(self.path).as_posix()
            own = name.startswith((".git/", ".dvc/tmp/", ".dvc/cache/")) or "__pycache__" in name
            if path.is_file() and not own:
                found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        return {name: text for name, text in found.items() if not name.startswith(".longline/")}


def make_grids(path: Path, files: dict[str, str] | None = None) -> Grids:
    """The project, committed, with documents that git ignores. Nothing has run."""
    own = {"stage.py": STAGE, ".gitignore": IGNORED, "numbers.json": json.dumps(NUMBERS)}
    project = make_project(path, STAGES, {**own, "inputs/README.md": "", **(files or {})})
    project.write("inputs/documents.text", "seven..")
    return Grids(project)


def copy_grids(original: Grids, path: Path) -> Grids:
    """A copy that a test may change, with its cache, its experiments, and none of its notes."""
    shutil.rmtree(path, ignore_errors=True)
    return Grids(copy_project(original.project, path))


@contextmanager
def inside(grids: Grids) -> Iterator[None]:
    """This process in the project."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(grids.path)
        patch.setenv("DVC_SITE_CACHE_DIR", grids.project.environment["DVC_SITE_CACHE_DIR"])
        yield
