"""The script for sbatch, run here: with git, and with `longline`, `dvc` and `scontrol` of our own.

What Slurm would do is done by the tests: its variables, and its signals to this shell or to all.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipelines.deploy import slurm as module
from pipelines.deploy.slurm import Request, batch_script
from tests.unit.pipelines.deploy.conftest import git, slurm

# Notes how it was called and what signals it gets; with FAKE_SECONDS it takes so long.
LONGLINE = r"""#!/bin/bash
printf '%s\0' "$@" >"$NOTES/arguments"
pwd >"$NOTES/folder"
env >"$NOTES/environment"
cat file >"$NOTES/file"
trap 'echo TERM >>"$NOTES/signals"' TERM
touch "$NOTES/started"
for _ in $(seq $((10 * ${FAKE_SECONDS:-0}))); do
  sleep 0.1
  if [ -e "$NOTES/signals" ]; then sleep 1.2; exit "${FAKE_STOPPED:-1}"; fi
done
exit "${FAKE_STATUS:-0}"
"""
SCONTROL = '#!/bin/bash\necho "$*" >>"$NOTES/scontrol"\nexit "${FAKE_SCONTROL:-0}"\n'
HOSTILE = [
    "a='b c'", 'a="x y"', "a=$(touch pwned)", "a=`touch pwned`", "a=${HOME}", "a=*", "a=~", "a=!x",
    "a=;touch pwned;", "a=\\", "a='", "a= é → 漢", "-S", "--", "a=a\tb".replace("\t", "  "), "",
]  # fmt: skip


@dataclass
class Node:
    """A folder with the script's programs and notes, and a way to start it as Slurm does."""

    folder: Path
    repository: Path

    def script(self, request: Request | None = None, **changed: object) -> Path:
        config = slurm(
            repository=str(self.repository),
            workspaces=str(self.folder / "work spaces"),
            cache=str(self.folder / "cache"),
            venv=str(self.folder),
            **changed,
        )
        path = self.folder / "job.sbatch"
        path.write_text(batch_script(config, request or Request(), self.folder), encoding="utf-8")
        return path

    def start(self, script: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        (self.folder / "notes" / "started").unlink(missing_ok=True)
        return subprocess.Popen(
            ["bash", str(script), *arguments], cwd=self.folder, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={
                "PATH": os.environ["PATH"], "HOME": str(self.folder), "SLURM_JOB_ID": "7",
                "SLURM_JOB_NAME": "longline", "NOTES": str(self.folder / "notes"),
                "TMPDIR": str(self.folder / "tmp"), "PREFECT_API_URL": "http://127.0.0.1:1/api",
                **environment,
            },
        )  # fmt: skip

    def run(self, script: Path, *arguments: str, **environment: str) -> tuple[int, str]:
        process = self.start(script, *arguments, **environment)
        _, said = process.communicate(timeout=60)
        return process.returncode, said

    def stop(
        self, script: Path, send: Callable[[int], object], **environment: str
    ) -> tuple[int, str]:
        """Start it, wait until `longline` runs, do what sends a signal, and wait for the end."""
        process = self.start(script, **{"FAKE_SECONDS": "20", **environment})
        deadline = time.monotonic() + 30
        while not self.noted("started") and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.1)
        send(process.pid)
        _, said = process.communicate(timeout=60)
        return process.returncode, said

    def noted(self, name: str) -> list[str]:
        path = self.folder / "notes" / name
        if not path.exists():
            return []
        text = path.read_text(encoding="utf-8")
        return (text or " ").splitlines() if name != "arguments" else text.split("\0")[:-1]

    def environment(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.noted("environment") if "=" in line)


@pytest.fixture
def node(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    for name in ("bin", "notes", "tmp"):
        (tmp_path / name).mkdir()
    programs = {"longline": LONGLINE, "scontrol": SCONTROL, "dvc": "#!/bin/sh\n"}
    for name, text in programs.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setattr(module, "check_request", lambda *_: None)  # stages and overrides of no kind
    return Node(tmp_path, repository)


def overrides(values: Sequence[str]) -> list[str]:
    return [word for value in values for word in ("-S", value)]


def test_arguments_arrive_as_they_were_given(node: Node) -> None:
    status, said = node.run(node.script(Request(["judge", "it's"], HOSTILE)))
    assert status == 0, said
    assert node.noted("arguments") == [
        "run", "--cpus", "8", "--gpus", "1", "judge", "it's", *overrides(HOSTILE)
    ]  # fmt: skip
    assert not list(node.folder.rglob("pwned"))


def test_each_task_of_an_array_has_its_own(node: Node) -> None:
    script = node.script(Request([], ["b=1"], HOSTILE))
    for task in (0, 3, len(HOSTILE) - 1):
        array = {"SLURM_ARRAY_JOB_ID": "40", "SLURM_ARRAY_TASK_ID": str(task)}
        assert node.run(script, **array)[0] == 0
        assert node.noted("arguments")[5:] == overrides(["b=1", HOSTILE[task]])
        assert node.noted("folder")[0].endswith(f"/work spaces/longline-40_{task}")


@pytest.mark.parametrize("status", [0, 1, 7])
def test_the_exit_status_is_that_of_the_run(node: Node, status: int) -> None:
    ended, said = node.run(node.script(), FAKE_STATUS=str(status))
    assert ended == status
    assert ("to go on: sbatch FILE longline-7" in said) == (status != 0)
    assert node.noted("scontrol") == []


def test_sigterm_to_the_shell_alone_is_forwarded_once(node: Node) -> None:
    status, said = node.stop(
        node.script(), lambda pid: os.kill(pid, signal.SIGTERM), FAKE_STOPPED="9"
    )
    assert status == 9, said
    assert node.noted("signals") == ["TERM"]
    assert node.noted("scontrol") == []  # whoever ends a job does not want it back


def test_sigterm_to_everything_reaches_the_run_once(node: Node) -> None:
    """As scancel and preemption do: a second SIGTERM would make the run give up."""
    status, said = node.stop(node.script(), lambda pid: os.killpg(pid, signal.SIGTERM))
    assert status == 1, said
    assert node.noted("signals") == ["TERM"]


def test_sigterm_before_the_run_has_begun(node: Node) -> None:
    (node.folder / "bin" / "dvc").write_text('#!/bin/sh\ntouch "$NOTES/started"\nsleep 1\n')
    status, _ = node.stop(node.script(), lambda pid: os.kill(pid, signal.SIGTERM))
    assert status == 143
    assert node.noted("arguments") == []


class TestTheWarningBeforeTheLimit:
    def warn(self, node: Node, script: Path, **environment: str) -> tuple[int, str]:
        return node.stop(script, lambda pid: os.kill(pid, signal.SIGUSR1), **environment)

    def test_the_run_is_stopped_and_the_job_goes_back_into_the_queue(self, node: Node) -> None:
        status, said = self.warn(node, node.script())
        assert status == 1
        assert node.noted("signals") == ["TERM"]
        assert node.noted("scontrol") == ["requeue 7"]
        assert "back into the queue" in said

    def test_not_more_often_than_it_may(self, node: Node) -> None:
        script = node.script(requeues=3)
        assert self.warn(node, script, SLURM_RESTART_COUNT="3")[0] == 1
        assert node.noted("scontrol") == []

    def test_not_when_the_run_was_done_after_all(self, node: Node) -> None:
        assert self.warn(node, node.script(), FAKE_STOPPED="0")[0] == 0
        assert node.noted("scontrol") == []

    def test_a_cluster_that_refuses(self, node: Node) -> None:
        status, said = self.warn(node, node.script(), FAKE_SCONTROL="1")
        assert status == 1
        assert "did not requeue" in said


def test_a_job_runs_the_commit_it_was_made_for_and_goes_on_in_its_workspace(node: Node) -> None:
    script = node.script()
    (node.repository / "file").write_text("three")
    git(node.repository, "commit", "-qam", "three")
    assert node.run(script)[0] == 0
    assert node.noted("file") == ["two"]
    workspace = Path(node.noted("folder")[0])
    assert workspace == node.folder / "work spaces" / "longline-7"
    (workspace / "half").touch()
    (workspace / ".dvc" / "tmp").mkdir()
    (workspace / ".dvc" / "tmp" / "rwlock").write_text("{}")
    assert node.run(script, SLURM_RESTART_COUNT="1")[0] == 0
    assert node.run(script, "longline-7", SLURM_JOB_ID="8")[0] == 0
    assert node.noted("folder") == [str(workspace)]
    assert (workspace / "half").exists()
    assert not (workspace / ".dvc" / "tmp" / "rwlock").exists()


@pytest.mark.parametrize("name", ["../x", ".x", "-x", "a b", "a/b", "$(id)", "a\nb"])
def test_a_workspace_is_a_plain_name(node: Node, name: str) -> None:
    status, said = node.run(node.script(), name)
    assert status == 2
    assert "not a workspace's name" in said


def test_only_in_a_job(node: Node) -> None:
    status, said = node.run(node.script(), SLURM_JOB_ID="")
    assert status != 0
    assert "submit this with sbatch" in said


def test_a_temporary_server_has_its_database_on_the_node(node: Node) -> None:
    database = "PREFECT_SERVER_DATABASE_CONNECTION_URL"
    _, said = node.run(node.script(), PREFECT_API_URL="")
    assert "PREFECT_API_URL is not set" in said
    assert node.environment()[database].startswith(f"sqlite+aiosqlite:///{node.folder}/tmp/")
    assert list((node.folder / "tmp").iterdir()) == []
    _, said = node.run(node.script())
    assert "PREFECT_API_URL" not in said
    assert database not in node.environment()


def test_nothing_is_left_running(node: Node) -> None:
    process = node.start(node.script())
    process.communicate(timeout=60)
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
