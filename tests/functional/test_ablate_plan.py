"""What `longline ablate` says before anything runs, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from pipelines.ablate.grid import FOLDER, cells, load_grid
from pipelines.ablate.planning import plan_grid
from pipelines.cli import main
from tests.functional.dags import ROOT
from tests.functional.grids import ARMS, METRIC, SEEDS, Grids, copy_grids, inside, make_grids


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Grids:
    """The project in which nothing ran."""
    return make_grids(tmp_path_factory.mktemp("plain") / "project")


def planned(grids: Grids, *arguments: str, status: int = 0, answer: str = "") -> Result:
    """`longline ablate` in this process: for what ends before anything runs."""
    with inside(grids):
        result = CliRunner().invoke(main, ["ablate", *arguments], input=answer)
    assert result.exit_code == status, result.output
    return result


ERRORS = {
    "unknown grid": (["rewrd"], ["no ablation 'rewrd'", "distractors_reward", "reward"]),
    "no axis": (["-S", "distractors=random"], ["nothing varies", "longline ablate -S"]),
    "no such choice": (["-S", "distractors=random,tierd"], ["tierd", "tiered"]),
    "no such key": (["-S", "candidates.smples=2,3"], ["no key 'candidates.smples'", "samples"]),
    "wrong value": (["-S", "candidates.samples=2,one"], ["candidates.samples"]),
    "a value twice": (["-S", "seed.train=0,1,0"], ["axis seed.train has a value twice"]),
    "twice": (["-S", "seed.train=0,1", "-S", "seed.train=2,3"], ["seed.train is varied twice"]),
    "no list": (["-S", "seed.train=interval(0,1)"], ["has no list of values"]),
    "unreadable": (["-S", "seed.train=0,(1"], ["cannot read 'seed.train=0,(1'"]),
    "name": (["-S", "seed.train=0,1", "--name", "a/b"], ["'a/b' cannot name an ablation"]),
    "unknown metric": (["-S", "seed.train=0,1", "--metric", "trian.value"], ["trian", "train"]),
    "no stage": (["-S", "seed.train=0,1", "--metric", "value"], ["value", "STAGE.key"]),
}


@pytest.mark.parametrize("case", ERRORS)
def test_what_cannot_run_is_one_readable_error(plain: Grids, case: str) -> None:
    arguments, words = ERRORS[case]
    before = plain.tree()
    result = planned(plain, *arguments, "-y", status=1)
    assert result.stdout == "" and result.stderr.startswith("error: ")
    assert isinstance(result.exception, SystemExit)
    for word in words:
        assert word in result.stderr
    assert not plain.executions() and not plain.experiments()
    assert plain.tree() == before and not (plain.path / ".longline").exists()


def test_a_project_without_a_commit(plain: Grids, tmp_path: Path) -> None:
    grids = copy_grids(plain, tmp_path / "project")
    grids.git("update-ref", "-d", "HEAD")
    result = planned(grids, *ARMS, *METRIC, "-y", status=1)
    assert "needs a commit to start from" in result.stderr and "git commit" in result.stderr
    assert not grids.executions()
    planned(grids, *ARMS, *METRIC, "--plan")  # to look needs none


def test_the_plan_runs_nothing(plain: Grids) -> None:
    before = plain.tree()
    result = planned(plain, *ARMS, *SEEDS, *METRIC, "--plan")
    assert result.stdout.splitlines()[:3] == [
        "distractors-train: 4 cells over distractors (2), seed.train (2)",
        "12 stages in all, 0 of them there; 7 unique executions instead of 12",
        "to run: base x1, data x2, train x4",
    ]
    assert not plain.executions() and not plain.experiments()
    assert plain.tree() == before and not (plain.path / ".longline").exists()


def test_no_is_an_answer(plain: Grids) -> None:
    result = planned(plain, *ARMS, *METRIC, answer="n\n", status=1)
    assert "Run it?" in result.output
    assert not plain.executions() and not plain.experiments()


def test_nobody_answers(plain: Grids) -> None:
    result = planned(plain, *ARMS, *METRIC, status=1)
    assert "error: nobody answered" in result.stderr and "-y" in result.stderr
    assert not plain.executions()


def test_a_slip_in_a_metric_shows_beforehand(plain: Grids, tmp_path: Path) -> None:
    grids = copy_grids(plain, tmp_path / "project")
    assert "note:" not in planned(grids, *ARMS, "--metric", "train.valu", "--plan").stdout
    grids.project.write("reports/train.json", json.dumps({"value": 1.0, "part": {"inputs": 2}}))
    said = planned(grids, *ARMS, "--metric", "train.valu", "--plan").stdout
    assert "note: no train.valu in reports/train.json as it is" in said and "train.value" in said
    for metric in ("train.value", "train.part.inputs"):
        assert "note:" not in planned(grids, *ARMS, "--metric", metric, "--plan").stdout


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / FOLDER).glob("*.yaml")))
def test_the_shipped_grids_can_be_planned(plain: Grids, name: str) -> None:
    grid = load_grid(ROOT, name)
    with inside(plain):
        plan = plan_grid(plain.path, grid)
    assert grid.description and len(plan.cells) == len(cells(grid)) >= 6
    assert len({cell.plan.params for cell in plan.cells}) == len(plan.cells)
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    assert {metric.partition(".")[0] for metric in grid.metrics} <= set(stages)
