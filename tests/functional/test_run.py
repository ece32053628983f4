"""`longline run`, as its users run it: in parallel, with true states, and nothing left behind."""

from __future__ import annotations

import hashlib
import json
import random
import re
import shlex
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.functional.dags import (
    SHORT,
    Api,
    FlowRecord,
    Forks,
    Project,
    Running,
    noted,
    stage,
    wait_until,
)

TOKEN = "planted-5hJq-do-not-show"
MEASURE = """\
import json, os
os.makedirs("reports/plots", exist_ok=True)
json.dump({"reward": 0.5, "by": {"slice": [1, 2]}}, open("reports/join.json", "w"))
with open("reports/plots/join.csv", "w") as file:
    file.write("step,loss\\n" + "".join(f"{n},{1 / (n + 1)}\\n" for n in range(20)))
"""


@dataclass(frozen=True)
class Ran:
    """A run that has ended: what was on the terminal, and what the API has."""

    output: str
    record: FlowRecord


def run(
    project: Project, api: Api, *arguments: str, status: int = 0, report: bool = False, **more: Any
) -> Ran:
    """`longline run`, in a fork with its imports done."""
    command = ["run", *arguments, *([] if report else ["--no-report"])]
    output = Forks().start(project, "longline", *command, **more).wait(status)
    return Ran(output, api.newest())


def states(record: FlowRecord) -> dict[str, str]:
    return {name: task.state for name, task in record.tasks.items()}


# --- runs that end well --------------------------------------------------------------------------

WHOLE = {
    "left": noted("left", ["src.txt"], "meet=right", desc="The left one"),
    "right": noted("right", ["src.txt"], "meet=left"),
    "join": stage(
        "python stage.py join join.txt print=LONGLINE_TEST_TOKEN left.txt right.txt"
        " && python measure.py",
        ["stage.py", "measure.py", "left.txt", "right.txt"],
        ["join.txt"],
        params=["distractors.seed"],
        metrics=[{"reports/join.json": {"cache": False}}],
        plots=["reports/plots/join.csv"],
    ),
    "letter": stage("cut -c1 src-word.txt > letter.txt", ["src-word.txt"], ["letter.txt"]),
    "word": stage("cp letter.txt word.txt", ["letter.txt"], ["word.txt"]),
}


@pytest.fixture(scope="module")
def whole(api: Api, tmp_path_factory: pytest.TempPathFactory) -> Project:
    files = {"measure.py": MEASURE, "src-word.txt": "word\n"}
    project = api.project(tmp_path_factory.mktemp("whole") / "project", WHOLE, files)
    project.environment["LONGLINE_TEST_TOKEN"] = TOKEN
    return project


@pytest.fixture(scope="module")
def first(whole: Project, api: Api) -> Ran:
    """Everything runs, with an override and, as is the default, a report."""
    return run(whole, api, "--cpus", "2", "-S", "distractors.seed=7", report=True)


@pytest.fixture(scope="module")
def second(first: Ran, whole: Project, api: Api) -> Ran:
    """The same again: nothing to do."""
    whole.forget_notes()
    ran = run(whole, api, "-S", "distractors.seed=7")
    assert not whole.notes()
    return ran


@pytest.fixture(scope="module")
def third(second: Ran, whole: Project, api: Api) -> Ran:
    """Some of each: a lost output, another parameter, a source whose change makes no difference."""
    (whole.path / "left.txt").unlink()
    whole.write("src-word.txt", "wide\n")
    return run(whole, api, "join", "word")


class TestFirst:
    def test_independent_stages_overlap(self, first: Ran, whole: Project) -> None:
        assert states(first.record) == dict.fromkeys(WHOLE, "Completed")
        assert whole.read("join.txt") == "join\nleft\nsource\nright\nsource\n"

    def test_what_was_run_is_recorded(self, first: Ran, whole: Project) -> None:
        assert re.search(r"^distractors:\n(  .*\n)*  seed: 7\n", whole.read("params.yaml"), re.M)
        assert first.record.parameters["overrides"] == ["distractors.seed=7"]
        assert (first.record.state, first.record.message) == ("Completed", "5 ran")

    def test_edges(self, first: Ran) -> None:
        upstream = {name: set(task.upstream) for name, task in first.record.tasks.items()}
        assert upstream == {
            "left": set(), "right": set(), "join": {"left", "right"},
            "letter": set(), "word": {"letter"},
        }  # fmt: skip

    def test_logs_are_those_of_the_stage(self, first: Ran) -> None:
        tasks = first.record.tasks
        assert "> python stage.py left left.txt meet=right src.txt" in tasks["left"].log
        assert "LONGLINE_TEST_TOKEN is [secret]" in tasks["join"].log
        assert "LONGLINE_TEST_TOKEN" not in tasks["left"].log
        assert "git add" not in first.record.log
        assert "join         | LONGLINE_TEST_TOKEN is [secret]" in first.output
        assert "longline     | 0 fresh, 0 cached, 5 to run" in first.output
        assert "completed: 5 ran" in first.output

    def test_artifacts(self, first: Ran) -> None:
        artifacts = first.record.artifacts
        assert artifacts["plan"].type == "markdown"
        assert "| join | run | unknown | it never ran here |" in artifacts["plan"].data
        assert artifacts["progress"].type == "progress"
        assert artifacts["progress"].data == 100
        assert artifacts["progress"].description == "5 of 5 stages done"
        assert artifacts["join-metrics"].type == "table"
        assert json.loads(artifacts["join-metrics"].data) == [
            {"metric": "reward", "value": 0.5}, {"metric": "by.slice", "value": "[1, 2]"},
        ]  # fmt: skip
        assert artifacts["join-curves"].type == "image"
        assert artifacts["join-curves"].data.startswith("data:image/png;base64,iVBOR")

    def test_a_report_that_fails_fails_nothing(self, first: Ran) -> None:
        assert "no report: " in first.record.log

    def test_a_planted_secret_is_nowhere(self, first: Ran, third: Ran, whole: Project) -> None:
        for ran in (first, third):
            assert TOKEN not in ran.output
            assert TOKEN not in ran.record.everything
        for path in whole.path.rglob("*"):
            if path.is_file():
                assert TOKEN.encode() not in path.read_bytes(), path


def test_nothing_to_do(second: Ran) -> None:
    assert states(second.record) == dict.fromkeys(WHOLE, "Fresh")
    assert {task.type for task in second.record.tasks.values()} == {"COMPLETED"}
    assert {task.message for task in second.record.tasks.values()} == {"nothing changed"}
    assert second.record.message == "5 fresh"
    assert "nothing to compute" in second.output


class TestThird:
    def test_states_say_what_happened(self, third: Ran) -> None:
        assert states(third.record) == {
            "left": "Restored", "right": "Fresh", "join": "Completed", "letter": "Completed",
            "word": "Fresh",
        }  # fmt: skip
        assert third.record.message == "2 fresh, 2 ran, 1 restored"
        assert "restored from DVC's cache" in third.record.tasks["left"].message

    def test_only_what_changed_ran(self, third: Ran, whole: Project) -> None:
        assert {entry["stage"] for entry in whole.raw_notes()} == {"join"}

    def test_dvc_has_nothing_to_add(self, third: Ran, whole: Project) -> None:
        assert whole.status() == {}
        assert "Running stage" not in whole.run("dvc", "repro").stdout


def test_without_a_server_one_is_started_and_ended(third: Ran, whole: Project) -> None:
    environment = {**whole.environment}
    del environment["PREFECT_API_URL"]
    running = Project(whole.path, environment).start("run", "--no-report")
    said = running.wait()
    assert "watch it at http://127.0.0.1:" in said
    assert "completed: 5 fresh" in said
    assert running.left() == {}


def test_a_server_that_is_not_there(whole: Project) -> None:
    done = whole.longline("run", check=False, PREFECT_API_URL="http://127.0.0.1:9/api")
    assert done.returncode == 1
    assert "error: no Prefect server answers at http://127.0.0.1:9/api" in done.stderr
    assert "Traceback" not in done.stderr


# --- resources -----------------------------------------------------------------------------------


def test_cpus_bound_what_runs_at_once(api: Api, tmp_path: Path) -> None:
    """Nothing beside a stage that wants all; two that want half of it each run side by side."""
    all_of_it, half = {"resources": {"cpus": 2}}, {"resources": {"cpus": 1}}
    before = ["wide.txt", "broad.txt", "lone.txt"]
    project = api.project(
        tmp_path / "project",
        {
            "wide": noted("wide", ["src.txt"], "sleep=0.3", meta=all_of_it),
            "broad": noted("broad", ["src.txt"], "sleep=0.3", meta=all_of_it),
            "lone": noted("lone", ["src.txt"], "sleep=0.3", meta=half),
            "slim": noted("slim", before, "meet=thin", meta=half),
            "thin": noted("thin", before, "meet=slim", meta=half),
        },
    )
    run(project, api, "--cpus", "2")
    notes = project.notes()
    assert notes["slim"].overlaps(notes["thin"])
    for one in ("wide", "broad"):
        assert not any(notes[one].overlaps(notes[other]) for other in {*notes} - {one})
    project.forget_notes()
    run(project, api, "--cpus", "1", "wide", "broad", "--force")  # capped at what there is
    notes = project.notes()
    assert not notes["wide"].overlaps(notes["broad"])


GPUS = {
    "one": noted("one", ["src.txt"], "meet=two", meta={"resources": {"cpus": 0, "gpus": 1}}),
    "two": noted("two", ["src.txt"], "meet=one", meta={"resources": {"cpus": 0, "gpus": 1}}),
    "both": noted("both", ["one.txt", "two.txt"], meta={"resources": {"gpus": 2}}),
}


def test_gpus_are_given_out(api: Api, tmp_path: Path) -> None:
    project = api.project(tmp_path / "project", GPUS)
    refused = run(project, api, status=1, CUDA_VISIBLE_DEVICES="")
    assert "needs 1 GPUs, this run has 0" in refused.record.message
    assert "meta.resources.gpus of one" in refused.record.message
    assert refused.record.state == "Failed"
    assert "this run has 0" in refused.output
    assert refused.record.tasks == {}
    assert project.raw_notes() == []
    ran = run(project, api, CUDA_VISIBLE_DEVICES="4,7")
    assert set(states(ran.record).values()) == {"Completed"}
    notes = project.notes()
    assert {notes["one"].gpus, notes["two"].gpus} == {"4", "7"}
    assert notes["both"].gpus == "4,7"
    fresh = run(project, api, CUDA_VISIBLE_DEVICES="")  # what does not run needs none
    assert set(states(fresh.record).values()) == {"Fresh"}


# --- failure -------------------------------------------------------------------------------------


def test_failure(api: Api, tmp_path: Path) -> None:
    again = {"retries": 1}
    project = api.project(
        tmp_path / "project",
        {
            "bad": noted("bad", ["src.txt"], "die=src-broken.txt"),
            "child": noted("child", ["bad.txt", "sibling.txt"]),
            "last": noted("last", ["child.txt"]),
            "sibling": noted("sibling", ["src.txt"], "meet=bad", "sleep=0.5"),
            "after": noted("after", ["sibling.txt"]),
            "flaky": noted("flaky", ["src.txt"], "fail=1", meta=again),
            "stubborn": noted("stubborn", ["src.txt"], "fail=2", meta=again),
        },
        {"src-broken.txt": ""},
    )
    ran = run(project, api, "-S", "distractors.seed=7", "--cpus", "4", status=1, constants=SHORT)
    assert states(ran.record) == {
        "bad": "Failed", "child": "Skipped", "last": "Skipped", "sibling": "Completed",
        "after": "Completed", "flaky": "Completed", "stubborn": "Failed",
    }  # fmt: skip
    tasks = ran.record.tasks
    assert tasks["bad"].message == "there is src-broken.txt"
    assert tasks["child"].message == "not run: bad failed"
    assert tasks["last"].message == "not run: child was skipped"
    assert {name: task.attempts for name, task in tasks.items() if task.attempts > 1} == {
        "flaky": 2, "stubborn": 2,
    }  # fmt: skip
    assert "it is tried again" in tasks["flaky"].log
    assert ran.record.state == "Failed"
    assert "bad, stubborn failed; resume with: " in ran.record.message
    assert "longline     | bad failed: there is src-broken.txt" in ran.output
    assert "longline     | child skipped: bad failed" in ran.output

    (project.path / "src-broken.txt").unlink()
    resume = re.findall(r"resume with: (longline run .*)$", ran.output, re.MULTILINE)
    assert set(resume) == {"longline run -S distractors.seed=7"}
    project.start(*shlex.split(resume[0])[1:], "--no-report").wait()
    mended = api.newest()
    assert states(mended) == {
        "bad": "Completed", "child": "Completed", "last": "Completed", "sibling": "Fresh",
        "after": "Fresh", "flaky": "Fresh", "stubborn": "Completed",
    }  # fmt: skip


# --- stopping ------------------------------------------------------------------------------------

# family starts a child and an orphan that go into sessions of their own and ignore SIGTERM.
STOPPED = {
    "family": noted("family", ["src.txt"], "family=src-hold.txt", meta={"retries": 2}),
    "held": noted("held", ["src.txt"], "hold=src-hold.txt"),
    "done": noted("done", ["src.txt"]),
    "after": noted("after", ["family.txt", "done.txt"]),
}
FOUR = ("--cpus", "4")


@pytest.mark.parametrize("how", ["SIGINT", "SIGTERM", "API"])
def test_cancel(api: Api, tmp_path: Path, how: str) -> None:
    project = api.project(tmp_path / "project", STOPPED, {"src-hold.txt": ""})
    others = set(api.active())  # a flow that another test killed stays "running" for the server
    running = project.start("run", *FOUR, "--no-report", constants=SHORT)
    running.until(lambda: project.has("family", "family") and project.has("held"))
    running.until(lambda: project.has("done", "end"))
    running.until(lambda: not any("--single-item done" in one for one in running.left().values()))
    assert len(running.left()) >= 8  # the flow; supervisor, DVC and stage, twice; two that stay
    if how == "API":
        (flow_run,) = set(api.active()) - others
        api.cancel(flow_run)
    else:
        running.send(getattr(signal, how))
    said = running.wait(1)
    assert running.left() == {}
    assert project.status().keys() == {"family", "held", "after"}  # DVC's locks are free, at once

    record = api.newest()
    assert (record.state, record.type) == ("Cancelled", "CANCELLED")
    assert states(record) == {
        "family": "Cancelled", "held": "Cancelled", "done": "Completed", "after": "Skipped",
    }  # fmt: skip
    assert {task.attempts for task in record.tasks.values()} == {1}  # it was not tried again
    assert record.tasks["after"].message == "not run: family was stopped"
    assert "resume with: longline run" in record.message
    assert "stopped (1 ran); resume with: longline run" in said
    assert "Traceback" not in said

    (project.path / "src-hold.txt").unlink()
    again = run(project, api)
    assert states(again.record) == {
        "family": "Completed", "held": "Completed", "done": "Fresh", "after": "Completed",
    }  # fmt: skip
    assert project.status() == {}


def test_timeout(api: Api, tmp_path: Path) -> None:
    project = api.project(
        tmp_path / "project",
        {
            "family": noted("family", ["src.txt"], "family=src-hold.txt", meta={"timeout": 2}),
            "child": noted("child", ["family.txt"]),
            "sibling": noted("sibling", ["src.txt"], meta={"timeout": 60}),
        },
        {"src-hold.txt": ""},
    )
    running = Forks().start(project, "longline", "run", *FOUR, "--no-report", constants=SHORT)
    running.until(lambda: project.has("family", "family"))
    running.wait(1)
    assert running.left() == {}
    record = api.newest()
    assert states(record) == {"family": "Failed", "child": "Skipped", "sibling": "Completed"}
    assert "longer than its timeout of 2 s and was stopped" in record.tasks["family"].message
    assert record.state == "Failed"
    assert project.status().keys() == {"family", "child"}


def test_what_a_stage_leaves_behind_is_ended(api: Api, tmp_path: Path) -> None:
    """A stage that ends well, and has started a server that it forgot."""
    leaving = "python stage.py grandchild orphan & sleep 0.5; cp src.txt left.txt"
    project = api.project(
        tmp_path / "project", {"leaving": stage(leaving, ["src.txt"], ["left.txt"])}
    )
    running = Forks().start(project, "longline", "run", "--no-report", constants=SHORT)
    running.until(lambda: project.has("grandchild", "stays"))
    running.wait()
    assert running.left() == {}
    assert states(api.newest()) == {"leaving": "Completed"}


def test_two_runs_at_once(api: Api, tmp_path: Path) -> None:
    project = api.project(
        tmp_path / "project",
        {"held": noted("held", ["src.txt"], "hold=src-hold.txt")},
        {"src-hold.txt": ""},
    )
    start = Forks().start
    seven = ("-S", "distractors.seed=7", "--no-report")
    one = start(project, "longline", "run", *seven)
    one.until(lambda: project.has("held"))
    refused = start(project, "longline", "run", "--no-report").wait(1)
    holder = f"`longline run -S distractors.seed=7` (process {one.process.pid}, since "
    assert f"this workspace is in use by {holder}" in refused
    assert "fix: wait until it ends (`longline run --wait` does), or stop it first" in refused
    assert seed(project) == 7  # the second has not put its own there

    other = start(project, "longline", "run", "--wait", *seven)
    other.until(lambda: f"waiting for {holder}" in other.said())
    (project.path / "src-hold.txt").unlink()
    assert "completed: 1 ran" in one.wait()
    assert "completed: 1 fresh" in other.wait()
    assert [entry["event"] for entry in project.raw_notes()] == ["start", "end"]


# --- secrets -------------------------------------------------------------------------------------

CALL = """\
import sys
from prefect.blocks.system import Secret
from pipelines.flow.pipeline import pipeline
Secret(value=open(sys.argv[1]).read()).save("longline-test", overwrite=True)
for block in ("longline-test", "longline-absent"):
    state = pipeline(secrets={"THE_HIDDEN": block}, report=False, return_state=True)
    print(state.name, state.message)
"""
DIGEST = """\
import hashlib, os
print(hashlib.sha256(os.environ["THE_HIDDEN"].encode()).hexdigest())
"""


def test_a_secret_block_reaches_the_stage_and_nothing_else(api: Api, tmp_path: Path) -> None:
    """Whatever the variable is called, and whatever the stage prints; also over several lines."""
    secret = "first-part-9fQx\nsecond-part-Zw41"
    sealed = stage("python digest.py > sealed.txt", ["digest.py"], ["sealed.txt"])
    project = api.project(
        tmp_path / "project",
        {
            "sealed": sealed,
            "loud": noted("loud", ["src.txt"], "print=THE_HIDDEN"),
            "bad": stage('echo "error: $THE_HIDDEN"; exit 3', ["loud.txt"], ["bad.txt"]),
        },
        {"digest.py": DIGEST},
    )
    (tmp_path / "secret").write_text(secret)
    (tmp_path / "call.py").write_text(CALL)
    done = project.run(sys.executable, str(tmp_path / "call.py"), str(tmp_path / "secret"))
    assert "Failed bad failed" in done.stdout
    assert project.read("sealed.txt").strip() == hashlib.sha256(secret.encode()).hexdigest()
    record = api.newest(1)
    assert "THE_HIDDEN is [secret]" in record.tasks["loud"].log
    assert record.tasks["bad"].state == "Failed"
    assert "[secret]" in record.tasks["bad"].log
    absent = api.newest()
    assert absent.state == "Failed"
    assert "no Secret block 'longline-absent' for THE_HIDDEN" in absent.message
    for part in secret.split("\n"):
        for text in (done.stdout, done.stderr, record.everything, absent.everything):
            assert part not in text
        for path in project.path.rglob("*"):
            assert not path.is_file() or part.encode() not in path.read_bytes(), path


# --- crashes -------------------------------------------------------------------------------------

CRASHING = {
    "left": noted("left", ["src.txt"], "sleep=0.3", params=["distractors.seed"]),
    "right": stage(
        "python stage.py right right.txt sleep=0.1 src.txt"
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

    running = begin(1)
    began = time.monotonic()
    running.wait()
    span = time.monotonic() - began
    generator = random.Random(0)
    killed = interrupted = 0
    for number in range(2, 2 + KILLS):
        running = begin(number)
        if number % 2:  # at any moment; else while a stage runs
            time.sleep(generator.uniform(0.0, span))
        else:
            wait_until(lambda running=running: facts.unended() or running.status is not None)
            time.sleep(generator.uniform(0.0, 0.2))  # the longest stage takes 0.3
        running.send(signal.SIGKILL)
        dead = time.monotonic()
        wait_until(lambda running=running: running.status is not None)
        killed += running.status == -signal.SIGKILL
        if number == 1 + KILLS:
            break  # the next run meets what is still being stopped
        wait_until(lambda running=running: not running.left())
        assert time.monotonic() - dead < 4 * SHORT["pipelines.run.stage.GRACE"] + 5
        facts.check(number)
        interrupted += facts.unended() > 0
    assert killed >= KILLS * 3 // 4
    assert interrupted >= 3
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
