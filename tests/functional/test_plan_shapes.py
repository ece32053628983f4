"""`longline plan` is right about every other form of stage that dvc.yaml allows."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.functional.dags import Project, copy_project, make_project, stage
from tests.functional.forks import Forks
from tests.functional.planning import SEVEN, Case, examine, remove, repro, then, write

# All of them in one graph. All of it follows from src.txt, which
# `dvc add` tracks.
SHAPES = {
    "start": stage("cp src.txt start.txt", ["src.txt"], ["start.txt"]),
    "each": {
        "matrix": {"name": ["x", "y"]},
        **stage("cp start.txt ${item.name}.txt", ["start.txt"], ["${item.name}.txt"]),
    },
    "elsewhere": {
        "wdir": "inputs",
        **stage("cp ../start.txt elsewhere.txt", ["../start.txt"], ["elsewhere.txt"]),
    },
    "after_elsewhere": stage(
        "cp inputs/elsewhere.txt after.txt", ["inputs/elsewhere.txt"], ["after.txt"]
    ),
    "tree": stage(
        "mkdir -p tree/deep && cp src.txt tree/deep/one.txt && cp src.txt tree/deep/two.txt",
        ["src.txt"],
        ["tree"],
    ),
    "of_tree": stage("cat tree/deep/* > of-tree.txt", ["tree/deep"], ["of-tree.txt"]),
    "one_of_two": stage("mkdir -p made && cp src.txt made/one.txt", ["src.txt"], ["made/one.txt"]),
    "of_two": stage("cat made/* > of-two.txt", ["made"], ["of-two.txt"]),
    "always": {
        **stage("cp start.txt always.txt", ["start.txt"], ["always.txt"]),
        "always_changed": True,
    },
    "persisting": stage(
        "cat start.txt >> kept.txt", ["start.txt"], [{"kept.txt": {"persist": True}}]
    ),
    "uncached": stage(
        "cp start.txt uncached.txt", ["start.txt"], [{"uncached.txt": {"cache": False}}]
    ),
    "nothing_made": {"cmd": "test -e start.txt", "deps": ["start.txt"]},
    "steps": {**stage("", ["start.txt"], ["steps.txt"]), "cmd": ["true", "cp start.txt steps.txt"]},
    "all_params": stage(
        "cp params.yaml all.txt", ["src.txt"], ["all.txt"], params=[{"params.yaml": None}]
    ),
    "params_file": stage("cp params.yaml file.txt", ["params.yaml"], ["file.txt"]),
    "other_params": stage(
        "cp other.yaml other.txt", ["src.txt"], ["other.txt"], params=[{"other.yaml": ["key"]}]
    ),
    "templated": stage("echo ${distractors.seed} > echo.txt", ["src.txt"], ["echo.txt"]),
    "of_below": stage("cp below/made.txt of-below.txt", ["below/made.txt"], ["of-below.txt"]),
}
BELOW = {"start": stage("cp ../src.txt made.txt", ["../src.txt"], ["made.txt"])}
UNNEEDED = {"unneeded": stage("cp ../src.txt made.txt", ["../src.txt"], ["made.txt"])}
SHAPE_NAMES = {*SHAPES, "each@x", "each@y", "below/dvc.yaml:start"} - {"each"}
FROM_SRC = SHAPE_NAMES - {"params_file"}
LATER = FROM_SRC - {
    "start", "tree", "one_of_two", "all_params", "other_params", "templated", "always",
    "below/dvc.yaml:start",
}  # fmt: skip


@pytest.fixture(scope="module")
def all_shapes(tmp_path_factory: pytest.TempPathFactory, forks: Forks) -> Project:
    files = {
        "inputs/src-a.txt": "a\n",
        "other.yaml": "key: 1\n",
        "below/dvc.yaml": yaml.safe_dump({"stages": BELOW}),
        "unneeded/dvc.yaml": yaml.safe_dump({"stages": UNNEEDED}),
    }
    project = make_project(tmp_path_factory.mktemp("shapes") / "project", SHAPES, files)
    project.run("git", "rm", "-q", "--cached", "src.txt")
    project.run("dvc", "add", "-q", "src.txt")
    assert forks.run(project, "dvc", "repro").status == 0
    return project


@pytest.fixture
def shapes(all_shapes: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    copied = copy_project(all_shapes, tmp_path / "project")
    monkeypatch.setenv("DVC_SITE_CACHE_DIR", copied.environment["DVC_SITE_CACHE_DIR"])
    return copied


SHAPE_CASES = {
    "nothing": Case(run={"always"}),
    "source": Case(
        write("src.txt", "changed\n"), run=FROM_SRC, uncertain=LATER, why={"of_two": "will run"}
    ),
    "source changed back": Case(
        then(write("src.txt", "changed\n"), repro, write("src.txt", "source\n")),
        run={"always", "persisting", "uncached", "nothing_made", "of_two"},
        cached=FROM_SRC - {"always", "persisting", "uncached", "nothing_made", "of_two"},
        uncertain={"of_two"},
        why={"of_two": "one_of_two will be restored", "of_tree": "tree/deep changed"},
    ),
    "outputs gone": Case(
        remove("tree", "made", "inputs/elsewhere.txt", "kept.txt", "x.txt", "below/made.txt"),
        run={"always", "persisting", "of_two"},
        cached={"tree", "one_of_two", "elsewhere", "each@x", "below/dvc.yaml:start"},
        uncertain={"of_two"},
    ),
    "parameter": Case(
        overrides=SEVEN,
        run={"always", "all_params", "params_file", "templated"},
        why={"params_file": "params.yaml changed", "all_params": "distractors.seed: 0 -> 7"},
    ),
    "parameter of another file": Case(
        write("other.yaml", "key: 2\n"), run={"always", "other_params"},
        why={"other_params": "key: 1 -> 2"},
    ),
    "one of a matrix": Case(
        write("src.txt", "changed\n"), targets=("each@x",), run={"start", "each@x"},
        uncertain={"each@x"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPE_CASES)
def test_the_plan_comes_true_for_every_form_of_stage(
    shapes: Project, forks: Forks, name: str
) -> None:
    examine(shapes, forks, SHAPE_CASES[name])
