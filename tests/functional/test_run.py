"""`longline run`, as its users run it: in parallel, with true states, and no secret shown."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.functional.dags import Project, noted, stage
from tests.functional.prefect_api import Api, Ran, run, states
from tests.functional.processes import SHORT

TOKEN = "planted-5hJq-do-not-show"
MEASURE = """\
import json, os
os.makedirs("reports/plots", exist_ok=True)
json.dump({"reward": 0.5, "by": {"slice": [1, 2]}}, open("reports/join.json", "w"))
with open("reports/plots/join.csv", "w") as file:
    file.write("step,loss\\n" + "".join(f"{n},{1 / (n + 1)}\\n" for n in range(20)))
"""


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
        assert "longline     | 0 fresh, 0 restored, 5 to run" in first.output
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
    alone = Project(whole.path, environment)
    running = alone.start("run", "--no-report")
    said = running.wait()
    assert "completed: 5 fresh" in said and "watch it at" not in said  # none for nothing
    assert running.left() == {} and whole.status() == {}

    running = alone.start("run", "--no-report", "-S", "distractors.seed=8")
    said = running.wait()
    assert "watch it at http://127.0.0.1:" in said
    assert re.search(r"completed: \d fresh, [1-9] ran", said)
    assert running.left() == {} and whole.status() == {}


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
