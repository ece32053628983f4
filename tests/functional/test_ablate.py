"""`longline ablate`: each unique execution once, cells as DVC experiments, the workspace as it was.

The grids here are small (tests/functional/grids.py); everything else is real: git, DVC, Prefect.
"""

from __future__ import annotations

import csv
import json
import math
import re
import signal
import statistics
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from pipelines.ablate.grid import choose_grid
from pipelines.ablate.planning import GridPlan, plan_grid
from tests.functional.forks import Forks
from tests.functional.grids import (
    ARMS,
    METRIC,
    NUMBERS,
    REWARDS,
    SEEDS,
    Grids,
    copy_grids,
    inside,
    make_grids,
)
from tests.functional.processes import Running, wait_until

GROWING = {"one": ARMS, "crossed": (*ARMS, *REWARDS), "seeds": (*ARMS, *SEEDS)}
"""Grids that are run one after the other in one project, each with what the ones before left."""
UNIQUE = {
    "one": {"base", "data-random", "data-tiered", "train-random-positive_only-0",
            "train-tiered-positive_only-0"},
    "crossed": {"train-random-weighted_sum-0", "train-tiered-weighted_sum-0"},
    "seeds": {"train-random-positive_only-1", "train-tiered-positive_only-1"},
}  # fmt: skip
"""What each of them then has to execute, by hand."""
CELLS = {"one": 2, "crossed": 4, "seeds": 4}
FACTOR = 3


@dataclass(frozen=True)
class Ran:
    """What one grid did."""

    plan: GridPlan
    executions: Counter[str]
    said: str


@dataclass(frozen=True)
class Grown:
    """The project after all of `GROWING`."""

    grids: Grids
    ran: dict[str, Ran]
    before: dict[str, str]
    status: str
    head: str


@pytest.fixture(autouse=True)
def _shared_server(monkeypatch: pytest.MonkeyPatch, prefect_server: str) -> None:
    monkeypatch.setenv("PREFECT_API_URL", prefect_server)


def ablate(grids: Grids, server: str, *arguments: str, status: int = 0) -> str:
    words = ("longline", "ablate", *arguments, "-y")
    return Forks().start(grids.project, *words, PREFECT_API_URL=server).wait(status)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory, prefect_server: str) -> Grown:
    """A workspace in the middle of work, in which three grids were run."""
    grids = make_grids(tmp_path_factory.mktemp("grown") / "project")
    grids.project.run("dvc", "repro")
    grids.git("add", "-A")
    grids.git("commit", "-qm", "run")
    grids.project.write("numbers.json", json.dumps({**NUMBERS, "tiered-positive_only-1": 2.0}))
    grids.project.write("extra.py", f"FACTOR = {FACTOR}\n")
    grids.project.write("stage.py", grids.project.read("stage.py") + "# staged\n")
    grids.git("add", "stage.py")
    grids.project.write("inputs/documents.text", "changed....")
    before, status, head = grids.tree(), grids.git("status", "--porcelain"), grids.git("log", "-1")
    ran = {}
    for name, overrides in GROWING.items():
        grids.forget()
        with inside(grids):
            plan = plan_grid(grids.path, choose_grid(grids.path, "", overrides[1::2], name))
        said = ablate(grids, prefect_server, *overrides, "--name", name, *METRIC)
        ran[name] = Ran(plan, grids.executions(), said)
    return Grown(grids, ran, before, status, head)


@pytest.mark.parametrize("name", GROWING)
def test_every_unique_execution_ran_once(grown: Grown, name: str) -> None:
    ran = grown.ran[name]
    assert ran.executions == Counter(dict.fromkeys(UNIQUE[name], 1))
    wanted = {
        (row.node.name, row.outlook.identity)
        for cell in ran.plan.cells
        for row in cell.plan.rows
        if row.runs
    }
    assert {execution.key for execution in ran.plan.executions} == wanted
    assert len(ran.plan.executions) == len(wanted) == ran.executions.total()
    assert f"{len(wanted)} unique executions" in ran.said
    assert f"{CELLS[name]} of {CELLS[name]} cells done; executions: {len(wanted)} ran" in ran.said


def test_the_workspace_is_as_it_was(grown: Grown) -> None:
    pages = {f"reports/ablations/{name}/" for name in GROWING}
    after = grown.grids.tree()
    new = {name for name in after if name not in grown.before}
    assert {name.rpartition("/")[0] + "/" for name in new} == pages
    assert {name: after[name] for name in grown.before} == grown.before
    status = grown.grids.git("status", "--porcelain").splitlines()
    assert sorted(status) == sorted([*grown.status.splitlines(), "?? reports/ablations/"])
    assert grown.grids.git("log", "-1") == grown.head
    assert not grown.grids.git("stash", "list")
    assert not [path for path in (grown.grids.path / ".longline/ablations").iterdir()
                if path.is_dir()]  # fmt: skip


def test_the_cells_have_the_workspace_as_it_is_now(grown: Grown) -> None:
    """What is changed, staged, new or ignored, but not committed."""
    grids, name = grown.grids, "seeds-tiered-train_1"
    measured = json.loads(grids.saved(name, "reports/train.json"))
    assert measured["value"] == 2.0 * FACTOR
    assert measured["part"]["inputs"] == len("changed....")
    assert json.loads(grids.saved(name, "numbers.json"))["tiered-positive_only-1"] == 2.0
    assert grids.saved(name, "extra.py") == f"FACTOR = {FACTOR}\n"
    assert grids.saved(name, "stage.py").endswith("# staged\n")
    assert "kind: tiered" in grids.saved(name, "params.yaml")
    files = grids.git("ls-tree", "-r", "--name-only", grids.experiments()[name]).split()
    assert "inputs/documents.text" not in files
    assert not [file for file in files if file.startswith("reports/ablations")]


def test_the_cells_keep_the_answers_of_models_in_one_store(grown: Grown) -> None:
    notes = grown.grids.project.raw_notes()  # of the last grid
    assert len({note["folder"] for note in notes}) > 1
    assert {note["store"] for note in notes} == {str(grown.grids.path / ".longline/llm")}


def test_every_cell_is_an_experiment(grown: Grown) -> None:
    wanted = {cell.cell.name for ran in grown.ran.values() for cell in ran.plan.cells}
    assert len(wanted) == sum(CELLS.values())
    assert set(grown.grids.experiments()) == wanted
    assert "crossed-random-outcome" in wanted and "seeds-tiered-train_1" in wanted
    listed = grown.grids.project.run("dvc", "exp", "list", "--name-only").stdout.split()
    assert set(listed) == wanted


def test_dvc_shows_and_compares_the_cells(grown: Grown) -> None:
    project = grown.grids.project
    shown = project.run("dvc", "exp", "show", "--csv").stdout.splitlines()
    rows = {row["Experiment"]: row for row in csv.DictReader(shown)}
    assert float(rows["seeds-random-train_1"]["reports/train.json:value"]) == 0.7 * FACTOR
    assert rows["seeds-random-train_1"]["seed.train"] == "1"
    assert rows["crossed-tiered-outcome"]["distractors.kind"] == "tiered"
    diff = json.loads(
        project.run(
            "dvc", "exp", "diff", "seeds-random-train_1", "seeds-tiered-train_1", "--json"
        ).stdout
    )
    value = diff["metrics"]["reports/train.json"]["value"]
    assert (value["old"], value["new"]) == (0.7 * FACTOR, 2.0 * FACTOR)
    assert diff["params"]["params.yaml"]["distractors.kind"] == {"old": "random", "new": "tiered"}


def test_a_cell_is_applied_to_the_workspace(grown: Grown, tmp_path: Path) -> None:
    grids = copy_grids(grown.grids, tmp_path / "project")
    grids.project.run("dvc", "exp", "apply", "crossed-random-outcome")
    assert grids.project.status() == {}
    assert json.loads(grids.project.read("reports/train.json"))["value"] == 0.25 * FACTOR
    assert json.loads(grids.project.read("train.out")) == ["random", "weighted_sum", "0"]
    grids.project.run("dvc", "repro")
    assert not grids.executions()  # nothing was left to do
    assert grids.project.read("extra.py") == f"FACTOR = {FACTOR}\n"


def test_the_numbers_are_those_of_the_cells(grown: Grown) -> None:
    folder = grown.grids.path / "reports/ablations/seeds"
    arms = rows(folder / "results.csv")
    values = {
        "random": [FACTOR * value for value in (0.5, 0.7)],
        "tiered": [FACTOR * value for value in (0.5, 2.0)],
    }
    differences = [b - a for a, b in zip(values["random"], values["tiered"], strict=True)]
    quantile = 12.706204736174694  # Student's t, one degree of freedom, 97.5 %

    def interval(numbers: list[float]) -> list[float]:
        mean = statistics.fmean(numbers)
        half = quantile * statistics.stdev(numbers) / math.sqrt(len(numbers))
        return [mean, mean - half, mean + half]

    assert [row["setting.distractors"] for row in arms] == ["random", "tiered"]
    for row in arms:
        assert row["metric"] == "train.value" and row["n"] == row["cells"] == row["done"] == "2"
        found = [float(row[key]) for key in ("mean", "low", "high")]
        assert found == pytest.approx(interval(values[row["setting.distractors"]]))
    base, other = arms
    assert (base["baseline"], base["difference"]) == ("yes", "")
    found = [float(other[key]) for key in ("difference", "difference_low", "difference_high")]
    assert found == pytest.approx(interval(differences))
    assert (other["pairs"], other["verdict"]) == ("2", "cannot tell")
    cells = rows(folder / "cells.csv")
    assert [cell["name"] for cell in cells] == [
        f"seeds-{arm}-train_{seed}" for arm in values for seed in range(2)
    ]
    assert [float(cell["metric.train.value"]) for cell in cells] == [
        *values["random"],
        *values["tiered"],
    ]
    assert {cell["seconds"] + cell["tokens"] for cell in cells} == {""}  # unknown is not zero
    for page in ("index.html", "results.md"):
        assert "seeds-tiered-train_1" in (folder / page).read_text(encoding="utf-8")


def test_a_second_time_nothing_runs_and_nothing_is_saved(grown: Grown, prefect_server: str) -> None:
    grids = grown.grids
    grids.forget()
    before = grids.experiments()
    said = ablate(grids, prefect_server, *GROWING["crossed"], "--name", "crossed", *METRIC)
    assert not grids.executions()
    assert grids.experiments() == before
    assert "4 of 4 cells done; executions: none" in said
    assert "Experiment has been saved" not in said


def test_a_metric_that_no_cell_has_costs_no_execution(grown: Grown, prefect_server: str) -> None:
    """Its stage is known beforehand, its key only from a stage that ran; nothing is lost then."""
    grids, page = grown.grids, grown.grids.path / "reports/ablations/one/results.csv"
    grids.forget()
    before = grids.experiments(), page.read_bytes()
    arguments = [*GROWING["one"], "--name", "one", "--metric", "train.valeu"]
    said = ablate(grids, prefect_server, *arguments, status=1)
    assert "2 of 2 cells done" in said and "and saved; no results: " in said
    assert "no finished cell has the metric train.valeu" in said
    assert "allowed: base.part.inputs, base.value, " in said and "train.value" in said
    assert "Traceback" not in said and not grids.executions()
    assert (grids.experiments(), page.read_bytes()) == before


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Grids:
    """The project in which nothing ran. Tests copy it, or only plan in it."""
    return make_grids(tmp_path_factory.mktemp("plain") / "project")


@pytest.fixture
def grids(plain: Grids, tmp_path: Path) -> Grids:
    return copy_grids(plain, tmp_path / "project")


SMALL = (*ARMS, "-S", "seed.train=0,1", "--name", "small", *METRIC)
SHARED = ("base", "data-random", "data-tiered")
TRAINS = tuple(
    f"train-{arm}-positive_only-{seed}" for arm in ("random", "tiered") for seed in (0, 1)
)


def start(grids: Grids, server: str, *arguments: str) -> Running:
    return grids.project.start("ablate", *arguments, "-y", PREFECT_API_URL=server)


def test_a_failing_cell_stops_nothing_else(grids: Grids, prefect_server: str) -> None:
    victim = TRAINS[2]
    with grids.broken(victim):
        said = ablate(grids, prefect_server, *SMALL, status=1)
    assert grids.executions() == Counter(dict.fromkeys([*SHARED, *TRAINS], 1))
    assert set(grids.experiments()) == {
        "small-random-train_0", "small-random-train_1", "small-tiered-train_1"
    }  # fmt: skip
    assert f"small-tiered-train_0 failed: train: {victim} is broken" in said
    assert "3 of 4 cells done" in said and "Traceback" not in said
    resume = re.search(r"after mending it, resume with: longline (ablate .*)", said)
    assert resume
    folder = grids.path / "reports/ablations/small"
    cells = {row["name"]: row for row in rows(folder / "cells.csv")}
    assert cells["small-tiered-train_0"]["status"] == "failed"
    assert f"{victim} is broken" in cells["small-tiered-train_0"]["error"]
    assert cells["small-tiered-train_1"]["metric.train.value"] == "0.75"
    assert f"{victim} is broken" in (folder / "index.html").read_text(encoding="utf-8")

    grids.forget()
    before = grids.experiments()
    said = ablate(grids, prefect_server, *resume[1].split()[1:])
    assert grids.executions() == Counter([victim])
    assert "4 of 4 cells done; executions: 1 ran" in said
    after = grids.experiments()
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) == {"small-tiered-train_0"}
    cells = rows(folder / "cells.csv")
    assert {row["status"] for row in cells} == {"done"}


def cell(train: str) -> str:
    """The cell of SMALL that ends with this execution."""
    _, distractors, _, seed = train.split("-")
    return f"small-{distractors}-train_{seed}"


def test_cells_run_side_by_side_and_go_on_after_sigkill_and_ctrl_c(
    grids: Grids, prefect_server: str
) -> None:
    held = (TRAINS[0], TRAINS[3])
    with grids.held(*held):
        killed = start(grids, prefect_server, *SMALL)
        killed.until(lambda: set(held) <= set(grids.executions()))  # in two cells at once
        assert all(grids.executions()[name] == 1 for name in SHARED)
        killed.process.send_signal(signal.SIGKILL)
        killed.wait(-signal.SIGKILL)
        wait_until(lambda: not killed.left())
    first = grids.executions()
    assert first.total() <= len(SHARED) + len(TRAINS) and set(first.values()) == {1}

    saved = [name for name in TRAINS if cell(name) in grids.experiments()]
    with grids.held(*held):
        stopped = start(grids, prefect_server, *SMALL)
        stopped.until(lambda: all(grids.executions()[name] == 2 for name in held))
        stopped.process.send_signal(signal.SIGINT)
        said = stopped.wait(1)
        assert not stopped.left()
    assert "cancelled: stopped (" in said and "resume with: longline ablate" in said
    assert "Traceback" not in said
    assert all(grids.executions()[name] == 1 for name in (*SHARED, *saved))

    said = ablate(grids, prefect_server, *SMALL)
    assert "4 of 4 cells done" in said
    counts = grids.executions()
    assert all(counts[name] == 3 for name in held)
    assert all(counts[name] <= 2 for name in TRAINS if name not in held)
    assert all(counts[name] == 1 for name in SHARED)
    assert len(grids.experiments()) == 4
    grids.project.run("dvc", "exp", "apply", "small-tiered-train_1")
    assert grids.project.status() == {}


def test_equal_inputs_run_once_whatever_the_plan_expected(
    grids: Grids, prefect_server: str
) -> None:
    """seed.data changes the identity of data, and not a byte of what it makes."""
    described = yaml.safe_load(grids.project.read("dvc.yaml"))
    described["stages"]["data"]["params"].append("seed.data")
    grids.project.write("dvc.yaml", yaml.safe_dump(described, sort_keys=False))
    data, train = "data-tiered", "train-tiered-positive_only-0"
    with grids.held(train):
        with grids.held(data):
            run = start(grids, prefect_server, "-S", "seed.data=0,1", "--name", "equal", *METRIC)
            run.until(lambda: grids.executions()[data] == 2)
        run.until(lambda: grids.executions()[train])
        time.sleep(3)  # in which the other one would begin too
    said = run.wait(0)
    assert grids.executions() == Counter({"base": 1, data: 2, train: 1})
    assert "5 unique executions" in said
    assert "2 of 2 cells done; executions: 4 ran, 1 restored" in said
    saved = [grids.saved(f"equal-data_{seed}", "reports/train.json") for seed in (0, 1)]
    assert saved[0] == saved[1]


def test_the_same_grid_at_once_is_refused(grids: Grids, prefect_server: str) -> None:
    grid = (*ARMS, "--name", "twice", *METRIC)
    with grids.held("base"):
        first = start(grids, prefect_server, *grid)
        first.until(lambda: grids.executions()["base"])
        second = ablate(grids, prefect_server, *grid, status=1)
        assert grids.executions() == Counter(["base"])
    assert f"`longline ablate twice` (process {first.process.pid}, since " in second
    assert "Traceback" not in second
    first.kill()
