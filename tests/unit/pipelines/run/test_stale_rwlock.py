"""DVC's list of paths in use is dropped when nobody in it can be using them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.run.workspace import drop_stale_rwlock


def write(root: Path, text: str) -> Path:
    path = root / ".dvc" / "tmp" / "rwlock"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    return path


def entry(pid: int) -> str:
    info = {"pid": pid, "cmd": "dvc repro"}
    return json.dumps({"read": {"a": [info]}, "write": {"b": info}})


def test_the_process_is_gone_or_another_program(tmp_path: Path) -> None:
    path = write(tmp_path, entry(1))
    assert "dvc" not in Path("/proc/1/cmdline").read_text()
    assert drop_stale_rwlock(tmp_path)
    assert not path.exists()
    assert not drop_stale_rwlock(tmp_path)


def test_a_dvc_process_keeps_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)", "dvc"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it runs, so its command line is there
        path = write(tmp_path, entry(process.pid))
        assert not drop_stale_rwlock(tmp_path)
        assert path.exists()
        process.kill()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"read": {"a": [{}]}}', '{"write": 3}'])
def test_cut_off(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, text)
    assert drop_stale_rwlock(tmp_path)
    assert not path.exists()
    assert os.listdir(path.parent) == []
