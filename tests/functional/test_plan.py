"""`longline plan` says beforehand what `dvc repro` then does, and changes nothing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from pipelines.cli import main
from tests.functional.dags import Forks, Project, copy_project, make_project, outcomes, stage

# letter keeps the first character of src.txt only, so its output often stays the same. The two
# branches (letter > word > last, tuned > last) and moved differ in what they follow from.
STAGES = {
    "letter": stage("cut -c1 src.txt > letter.txt", ["src.txt"], ["letter.txt"]),
    "word": stage(
        "cat letter.txt src-word.txt > word.txt && cp word.txt copied.txt",
        ["letter.txt", "src-word.txt"],
        ["word.txt"],
    ),
    "tuned": stage(
        "grep seed: params.yaml > tuned.txt",
        ["src-word.txt"],
        ["tuned.txt"],
        params=["distractors.seed"],
        metrics=[{"reports/tuned.json": {"cache": False}}],
    ),
    "folder": stage(
        "mkdir -p folder && cp tuned.txt folder/a.txt && cp tuned.txt folder/b.txt",
        ["tuned.txt"],
        ["folder"],
    ),
    "last": stage(
        "cat word.txt folder/a.txt > last.txt", ["word.txt", "folder/a.txt"], ["last.txt"]
    ),
    "moved": stage("cat ${corpus.path}/* > moved.txt", ["${corpus.path}"], ["moved.txt"]),
}
STAGES["tuned"]["cmd"] += " && mkdir -p reports && echo '{\"n\": 1}' > reports/tuned.json"
FILES = {"src-word.txt": "word\n", "inputs/src-a.txt": "a\n", "other/src-b.txt": "b\n"}
TUNED = {"tuned", "folder", "last"}
NAMES = set(STAGES)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """All of it has run, twice with different sources."""
    project = make_project(tmp_path_factory.mktemp("plan") / "project", STAGES, FILES)
    project.run("dvc", "repro")
    return project


@pytest.fixture
def project(done: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    copied = copy_project(done, tmp_path / "project")
    monkeypatch.setenv("DVC_SITE_CACHE_DIR", copied.environment["DVC_SITE_CACHE_DIR"])
    return copied


def tree(project: Project) -> dict[str, str]:
    """Every file of the project with its content, rights and links; DVC's own notes aside."""
    found = {}
    for path in sorted(project.path.rglob("*")):
        name = path.relative_to(project.path).as_posix()
        if path.is_file() and not name.startswith((".git/", ".dvc/tmp/")):
            mode = stat.S_IMODE(path.lstat().st_mode)
            found[name] = f"{mode:o} {hashlib.sha256(path.read_bytes()).hexdigest()}"
    return found


def longline(project: Project, *arguments: str, status: int = 0) -> Result:
    """The command in this process, which has everything imported."""
    with contextlib.chdir(project.path):
        result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == status, result.output
    return result


def make(project: Project, *arguments: str) -> dict[str, Any]:
    """The plan of the project; making it must change nothing."""
    before = tree(project)
    plan = json.loads(longline(project, "plan", "--json", *arguments).stdout)
    assert tree(project) == before
    return dict(plan)


def will(plan: dict[str, Any], certain: bool | None = None) -> dict[str, str]:
    return {
        row["stage"]: row["will"]
        for row in plan["stages"]
        if certain is None or row["certain"] is certain
    }


def check(
    project: Project,
    forks: Forks,
    targets: Sequence[str] = (),
    overrides: Sequence[str] = (),
    force: bool = False,
) -> dict[str, Any]:
    """Plan, then `dvc repro`, and compare: what is certain must come true, and DVC must run
    nothing that was not said to run. Returns the plan."""
    options = [*targets, *(f"-S{one}" for one in overrides), *(["--force"] if force else [])]
    plan = make(project, *options)
    longline(project, "params", "compose", *overrides)
    output = forks.run(project, "dvc", "repro", *targets, *(["--force"] if force else [])).said()
    happened = outcomes(output)
    said = will(plan)
    failed = "failed to reproduce" in output
    assert failed == any("will fail" in why for row in plan["stages"] for why in row["reasons"])
    if not failed:
        assert set(happened) == set(said)
    certain = {name: how for name, how in will(plan, certain=True).items() if name in happened}
    assert {name: happened[name] for name in certain} == certain
    ran = {name for name, how in happened.items() if how == "run"}
    assert ran <= set(plan["will_run"])
    return plan


@dataclass(frozen=True)
class Case:
    """A change to the finished project, and what the plan must say."""

    change: Callable[[Project], object] = lambda project: None
    run: frozenset[str] | set[str] = frozenset()
    cached: frozenset[str] | set[str] = frozenset()
    uncertain: frozenset[str] | set[str] = frozenset()
    """Stages of `run` that may yet turn out fresh or cached."""
    why: dict[str, str] = field(default_factory=dict)
    targets: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    force: bool = False


def write(name: str, text: str) -> Callable[[Project], object]:
    return lambda project: project.write(name, text)


def remove(*names: str) -> Callable[[Project], object]:
    def change(project: Project) -> None:
        for name in names:
            path = project.path / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return change


def then(*changes: Callable[[Project], object]) -> Callable[[Project], object]:
    """One change after another; `repro` is one of them."""

    def change(project: Project) -> None:
        for each in changes:
            each(project)

    return change


def repro(project: Project) -> None:
    Forks().run(project, "dvc", "repro")


def composed(*overrides: str) -> Callable[[Project], object]:
    return lambda project: longline(project, "params", "compose", *overrides)


def restage(name: str, **values: Any) -> Callable[[Project], object]:
    return lambda project: project.stages(**{name: {**STAGES[name], **values}})


def damage(project: Project) -> None:
    """Outputs of word are gone, and so is the object in the cache."""
    digest = hashlib.md5(b"s\nword\n").hexdigest()
    (project.path / ".dvc/cache/files/md5" / digest[:2] / digest[2:]).unlink()
    (project.path / "word.txt").unlink()


SEVEN = ("distractors.seed=7",)
NEW = stage("cp last.txt new.txt", ["last.txt"], ["new.txt"])
CASES = {
    "nothing": Case(),
    "source": Case(
        write("src.txt", "t\n"),
        run={"letter", "word", "last"},
        uncertain={"word", "last"},
        why={"letter": "src.txt changed", "word": "letter will run", "last": "word will run"},
    ),
    "source, and the output stays the same": Case(
        write("src.txt", "something\n"), run={"letter", "word", "last"}, uncertain={"word", "last"}
    ),
    "source changed back": Case(
        then(write("src.txt", "t\n"), repro, write("src.txt", "source\n")),
        cached={"letter", "word", "last"},
        why={"letter": "src.txt changed", "word": "letter.txt changed", "last": "word.txt changed"},
    ),
    "source touched": Case(write("src.txt", "source\n")),
    "source of two stages": Case(
        write("src-word.txt", "verb\n"),
        run={"word", *TUNED},
        uncertain={"folder", "last"},
        why={"word": "src-word.txt changed", "tuned": "src-word.txt changed"},
    ),
    "parameter": Case(
        overrides=SEVEN,
        run=TUNED,
        uncertain={"folder", "last"},
        why={"tuned": "distractors.seed: 0 -> 7"},
    ),
    "parameter of nobody": Case(overrides=("warmup.seed=7",)),
    "parameter changed back": Case(
        then(composed(*SEVEN), repro), cached=TUNED, why={"tuned": "distractors.seed: 7 -> 0"}
    ),
    "parameter, as before": Case(then(composed(*SEVEN), repro), overrides=SEVEN),
    "command": Case(
        restage("letter", cmd="cut -c1-2 src.txt > letter.txt"),
        run={"letter", "word", "last"},
        uncertain={"word", "last"},
        why={"letter": "its command changed"},
    ),
    "dependency added": Case(
        restage("moved", deps=["${corpus.path}", "src.txt"]),
        run={"moved"},
        why={"moved": "src.txt changed"},
    ),
    "dependency taken away": Case(restage("word", deps=["letter.txt"])),
    "parameter added": Case(
        restage("moved", params=["warmup.seed"]), run={"moved"}, why={"moved": "warmup.seed is new"}
    ),
    "output added": Case(
        restage("word", outs=["word.txt", "copied.txt"]), run={"word", "last"}, uncertain={"last"}
    ),
    "meta": Case(restage("word", meta={"resources": {"cpus": 2}}, desc="A word")),
    "output gone": Case(
        remove("word.txt"), cached={"word"}, why={"word": "word.txt is deleted"}
    ),
    "output edited": Case(
        write("letter.txt", "edited\n"), cached={"letter"}, why={"letter": "letter.txt is modified"}
    ),
    "folder gone": Case(remove("folder"), cached={"folder"}, why={"folder": "folder is deleted"}),
    "file in a folder edited": Case(write("folder/a.txt", "edited\n"), cached={"folder"}),
    "file in a folder gone": Case(remove("folder/b.txt"), cached={"folder"}),
    "metrics gone": Case(remove("reports/tuned.json"), cached={"tuned"}),
    "all outputs gone": Case(
        remove("letter.txt", "word.txt", "tuned.txt", "folder", "last.txt", "moved.txt"),
        cached=NAMES,
    ),
    "dvc.lock gone": Case(remove("dvc.lock"), cached=NAMES, why={"word": "it never ran here"}),
    "dvc.lock and outputs gone": Case(
        remove("dvc.lock", "letter.txt", "last.txt", "folder"), cached=NAMES
    ),
    "cache gone": Case(
        remove(".dvc/cache"), run=NAMES, uncertain={"word", "folder", "last"},
        why={"letter": "letter.txt is not in cache"},
    ),
    "cache and lock gone": Case(
        remove(".dvc/cache", "dvc.lock"), run=NAMES, uncertain={"word", "folder", "last"}
    ),
    "cached object missing": Case(
        damage, run={"word", "last"}, uncertain={"last"}, why={"word": "word.txt is not in cache"}
    ),
    "run-cache gone": Case(then(remove(".dvc/cache/runs", "word.txt")), cached={"word"}),
    "new stage": Case(
        lambda project: project.stages(new=NEW), run={"new"}, why={"new": "it never ran here"}
    ),
    "source missing": Case(
        remove("src.txt"),
        run={"letter", "word", "last"},
        uncertain={"word", "last"},
        why={"letter": "src.txt does not exist; the stage will fail"},
    ),
    "forced": Case(force=True, run=NAMES, why={"last": "forced"}),
    "forced, some": Case(force=True, targets=("word",), run={"letter", "word"}),
    "some of the stages": Case(
        write("src-word.txt", "verb\n"), targets=("word", "moved"), run={"word"}
    ),
    "input moved": Case(
        overrides=("corpus.path=other",),
        run={"moved"},
        why={"moved": "its command changed"},
    ),
    "input moved, and back": Case(
        then(composed("corpus.path=other"), repro), cached={"moved"}
    ),
    "file added to an input folder": Case(
        write("inputs/src-c.txt", "c\n"), run={"moved"}, why={"moved": "inputs changed"}
    ),
    "several": Case(
        then(write("src.txt", "t\n"), repro, write("src.txt", "source\n"), remove("moved.txt")),
        overrides=SEVEN,
        run=TUNED,
        uncertain={"folder", "last"},
        cached={"letter", "word", "moved"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_plan_comes_true(project: Project, forks: Forks, name: str) -> None:
    case = CASES[name]
    case.change(project)
    plan = check(project, forks, case.targets, case.overrides, case.force)
    said = will(plan)
    by_kind = {kind: {one for one in said if said[one] == kind} for kind in ("run", "cached")}
    assert by_kind == {"run": case.run, "cached": case.cached}
    assert set(will(plan, certain=False)) == case.uncertain
    reasons = {row["stage"]: "; ".join(row["reasons"]) for row in plan["stages"]}
    for one, reason in case.why.items():
        assert reason in reasons[one]
    assert all(reasons.values())
