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
    "output gone": Case(remove("word.txt"), cached={"word"}, why={"word": "word.txt is deleted"}),
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
        remove(".dvc/cache"),
        run=NAMES,
        uncertain={"word", "folder", "last"},
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
    "input moved, and back": Case(then(composed("corpus.path=other"), repro), cached={"moved"}),
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
    examine(project, forks, CASES[name])


def examine(project: Project, forks: Forks, case: Case) -> None:
    """Make the change, compare plan and `dvc repro`, and the plan with what it must say."""
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


# Every other form that dvc.yaml allows, in one graph. All of it follows from src.txt, which
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


def freeze(name: str) -> Callable[[Project], object]:
    return lambda project: project.run("dvc", "freeze", name)


FROZEN_CASES = {
    "source": Case(
        then(freeze("word"), write("src.txt", "t\n")),
        run={"letter"},
        why={"word": "it is frozen", "last": "nothing changed"},
    ),
    "as a target": Case(then(freeze("word"), write("src.txt", "t\n")), targets=("last",)),
    "output gone": Case(
        then(freeze("word"), remove("word.txt")), run={"word", "last"}, uncertain={"last"},
        why={"word": "word.txt does not exist; the stage is frozen and will fail"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FROZEN_CASES)
def test_a_frozen_stage_is_left_alone(project: Project, forks: Forks, name: str) -> None:
    examine(project, forks, FROZEN_CASES[name])


# --- what a plan says beside ---------------------------------------------------------------------

PREDICTED = {
    "corpus": stage(
        "cp src.txt corpus.txt", ["src.txt"], ["corpus.txt"], meta={"resources": {"cpus": 2}}
    ),
    "rubrics": stage("cp corpus.txt rubrics.txt", ["corpus.txt"], ["rubrics.txt"]),
    "judge": stage(
        "cp corpus.txt judge.txt", ["corpus.txt"], ["judge.txt"], meta={"resources": {"gpus": 2}}
    ),
    "own": stage("cp judge.txt own.txt", ["judge.txt"], ["own.txt"]),
    "apart": stage(
        "cp src.txt apart.txt", ["src.txt"], ["apart.txt"], meta={"resources": {"gpus": 1}}
    ),
}


def log_of(stage_name: str, seconds: float, **more: Any) -> dict[str, Any]:
    variant = {"corpus": "atlas", "rubrics": "gold_entity_chain", "judge": "panel"}
    entry = {"stage": stage_name, "variant": variant.get(stage_name, ""), "profile": "tiny"}
    return {**entry, "status": "ok", "seconds": seconds, **more}


@pytest.fixture
def unrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project in which nothing has run."""
    project = make_project(tmp_path / "project", PREDICTED)
    monkeypatch.setenv("DVC_SITE_CACHE_DIR", project.environment["DVC_SITE_CACHE_DIR"])
    return project


def remember(project: Project, *entries: dict[str, Any]) -> None:
    lines = [json.dumps(entry) for entry in entries]
    project.write(".longline/runs.jsonl", "\n".join([*lines, '{"torn']))


def predicted(plan: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["stage"]: row["predicted"] for row in plan["stages"]}


def test_unknown_says_unknown(unrun: Project) -> None:
    plan = make(unrun)
    for prediction in predicted(plan).values():
        assert prediction == {
            "seconds": None, "tokens": None, "cost": None, "basis": "no earlier run"
        }  # fmt: skip
    assert plan["predicted_seconds"] is None
    assert plan["critical_path"] == ["corpus", "judge", "own"]  # the longest chain
    text = longline(unrun, "plan").output
    assert "predicted time: unknown (no earlier run)" in text
    assert "predicted tokens: unknown; cost: unknown" in text
    assert "GPUs needed: 2" in text
    assert "next: longline run\n" in text


def test_predictions_come_from_earlier_runs(unrun: Project) -> None:
    other = log_of("corpus", 1000.0, profile="smoke")
    failed = log_of("corpus", 2000.0, status="failed")
    variant = log_of("corpus", 3000.0, variant="files")
    corpus = [log_of("corpus", seconds) for seconds in (900.0, 5.0, 7.0, 6.0, 30.0, 4.0)]
    remember(
        unrun,
        *corpus, other, failed, variant,
        log_of("rubrics", 100.0, tokens={"prompt": 10, "completion": 5}, cost=0.25),
        log_of("judge", 20.0, tokens={"prompt": 1000}, cost=0.5),
    )  # fmt: skip
    plan = make(unrun)
    found = predicted(plan)
    # The median of the last five of this variant and profile that ended well.
    assert found["corpus"]["seconds"] == 6.0
    assert found["corpus"]["basis"] == "5 runs of atlas, profile tiny"
    assert found["corpus"]["tokens"] is None
    assert found["rubrics"]["tokens"] == 15
    assert found["rubrics"]["cost"] == 0.25
    assert found["own"]["seconds"] is None
    assert plan["critical_path"] == ["corpus", "rubrics"]
    assert plan["predicted_seconds"] == 106.0
    text = longline(unrun, "plan").output
    assert "critical path: corpus > rubrics" in text
    assert "predicted time: at least 2 min 6 s of work; 2 unknown" in text
    assert "predicted tokens: at least 1,015; cost: at least 0.75" in text


def test_a_run_of_the_same_inputs_predicts_best(unrun: Project) -> None:
    row = make(unrun)["stages"][0]
    remember(unrun, log_of("corpus", 50.0, identity=row["identity"]), log_of("corpus", 1.0))
    found = predicted(make(unrun))["corpus"]
    assert (found["seconds"], found["basis"]) == (50.0, "1 run of the same inputs")
    unrun.write("src.txt", "changed\n")
    found = predicted(make(unrun))["corpus"]
    assert (found["seconds"], found["basis"]) == (25.5, "2 runs of atlas, profile tiny")


def test_what_does_not_run_takes_nothing(unrun: Project, forks: Forks) -> None:
    forks.run(unrun, "dvc", "repro")
    remember(unrun, *(log_of(name, 10.0, cost=1.0) for name in PREDICTED))
    (unrun.path / "judge.txt").unlink()
    plan = make(unrun)
    assert {p["seconds"] for p in predicted(plan).values()} == {0.0}
    assert (plan["will_run"], plan["critical_path"], plan["predicted_seconds"]) == ([], [], 0)
    assert plan["gpus"] == 0
    text = longline(unrun, "plan").output
    assert "4 fresh, 1 cached, 0 to run\nnothing to compute\nnext: longline report" in text


def test_gpus_are_those_that_run(unrun: Project, forks: Forks) -> None:
    assert make(unrun)["gpus"] == 2
    forks.run(unrun, "dvc", "repro")
    (unrun.path / ".dvc/cache/runs").rename(unrun.path / "runs")
    unrun.stages(apart={**PREDICTED["apart"], "cmd": "cat src.txt > apart.txt"})
    plan = make(unrun)
    assert (plan["will_run"], plan["gpus"]) == (["apart"], 1)
    resources = {row["stage"]: row["resources"] for row in plan["stages"]}
    assert resources["judge"] == {"cpus": 1, "gpus": 2}
    assert resources["corpus"] == {"cpus": 2, "gpus": 0}


def test_the_same_inputs_have_the_same_identity_everywhere(
    unrun: Project, forks: Forks, tmp_path: Path
) -> None:
    """Whatever has run before, here or nowhere: ablations and predictions go by it."""
    folder = {"read": stage("cat inputs/* > read.txt", ["inputs"], ["read.txt"])}
    unrun.stages(**folder)
    unrun.write("inputs/src-a.txt", "a\n")

    def identities() -> dict[str, str]:
        return {row["stage"]: row["identity"] for row in make(unrun)["stages"]}

    fresh = identities()
    forks.run(unrun, "dvc", "repro")
    assert identities() == fresh
    unrun.stages(read={**folder["read"], "deps": ["src.txt"]})  # inputs is not in dvc.lock then
    forks.run(unrun, "dvc", "repro")
    unrun.stages(**folder)
    assert identities() == fresh
    unrun.write("src.txt", "changed\n")
    changed = {name for name, one in identities().items() if one != fresh[name]}
    assert changed == set(PREDICTED)


def test_the_words_and_the_json_agree(unrun: Project) -> None:
    """The table that people read, in a process of its own."""
    done = unrun.longline("plan", "judge", "-S", "distractors.seed=7", "--force")
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert [line.split()[:2] for line in lines[1:3]] == [["corpus", "run"], ["judge", "run"]]
    assert lines[-1] == "next: longline run judge -S distractors.seed=7 --force"
    plan = json.loads(unrun.longline("plan", "judge", "--force", "--json").stdout)
    assert plan["will_run"] == ["corpus", "judge"]
    assert plan["targets"] == ["judge"]


# --- what cannot be planned ----------------------------------------------------------------------


def refusal(project: Project, *arguments: str) -> str:
    """What `longline plan` says where it fails: one error, in words."""
    result = longline(project, "plan", *arguments, status=1)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("error: ") == 1
    assert "Traceback" not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.stderr


@pytest.mark.parametrize("text", ["schema: '2.0'\nstages: [", "stages: {letter: {outs: 3}}", "7"])
def test_a_corrupted_lock(project: Project, forks: Forks, text: str) -> None:
    project.write("dvc.lock", text)
    said = refusal(project)
    assert "dvc.lock" in said
    assert "fix: rm dvc.lock && dvc repro (results are restored from the cache)" in said
    (project.path / "dvc.lock").unlink()
    assert set(outcomes(forks.run(project, "dvc", "repro").said()).values()) == {"cached"}


def test_a_corrupted_dvc_yaml(project: Project) -> None:
    project.write("dvc.yaml", "stages: [")
    assert "fix: correct dvc.yaml" in refusal(project)


def test_no_dvc_yaml(project: Project) -> None:
    (project.path / "dvc.yaml").unlink()
    assert "no dvc.yaml in" in refusal(project)


def test_an_unknown_stage_names_the_known_ones(project: Project) -> None:
    said = refusal(project, "wrod")
    assert "no stage 'wrod'" in said
    assert f"allowed: {', '.join(sorted(NAMES))}" in said


def test_a_parameter_that_is_not_there(project: Project) -> None:
    project.stages(moved={**STAGES["moved"], "params": ["nothing.here"]})
    assert "nothing.here" in refusal(project)


def test_overrides_that_do_not_compose(project: Project) -> None:
    assert "there is no key 'distractors.sede'" in refusal(project, "-S", "distractors.sede=1")
    assert "distractors" in refusal(project, "-S", "distractors.seed=many")


@pytest.mark.parametrize(
    ("meta", "complaint"),
    [
        ({"resources": {"gpu": 1}}, "allowed: cpus, gpus"),
        ({"resources": {"gpus": -1}}, "gpus of stage 'moved' is -1"),
        ({"retries": "two"}, "retries of stage 'moved' is 'two'"),
        ({"timeout": 0}, "timeout of stage 'moved' is 0"),
    ],
)
def test_a_wrong_meta(project: Project, meta: dict[str, Any], complaint: str) -> None:
    project.stages(moved={**STAGES["moved"], "meta": meta})
    said = refusal(project)
    assert complaint in said
    assert "fix: correct meta of stage moved in dvc.yaml" in said
