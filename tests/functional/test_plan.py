"""`longline plan` says beforehand what `dvc repro` then does, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.functional.dags import Project, copy_project, make_project, outcomes, stage
from tests.functional.forks import Forks
from tests.functional.planning import (
    SEVEN,
    Case,
    composed,
    damage,
    examine,
    longline,
    remove,
    repro,
    then,
    write,
)

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


def restage(name: str, **values: Any) -> Callable[[Project], object]:
    return lambda project: project.stages(**{name: {**STAGES[name], **values}})


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
