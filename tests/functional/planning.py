"""Making a plan of a small project, and comparing it with what `dvc repro` then does."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from click.testing import CliRunner, Result

from pipelines.cli import main
from tests.functional.dags import Project, outcomes
from tests.functional.forks import Forks

SEVEN = ("distractors.seed=7",)


def tree(project: Project) -> dict[str, str]:
    """Every file of the project with its content, rights and links; DVC's own notes and Python's
    bytecode aside."""
    found = {}
    for path in sorted(project.path.rglob("*")):
        name = path.relative_to(project.path).as_posix()
        own = name.startswith((".git/", ".dvc/tmp/")) or "__pycache__" in path.parts
        if path.is_file() and not own:
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


def damage(project: Project) -> None:
    """Outputs of word are gone, and so is the object in the cache."""
    digest = hashlib.md5(b"s\nword\n").hexdigest()
    (project.path / ".dvc/cache/files/md5" / digest[:2] / digest[2:]).unlink()
    (project.path / "word.txt").unlink()


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
