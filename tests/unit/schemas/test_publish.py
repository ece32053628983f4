"""Publishing: whatever stops it, the target is one whole version."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from schemas import publish as module
from schemas.publish import publish, recover

FILES = 25
LOOP = """
import sys
from pathlib import Path
from schemas import publish as module
root, first, exchange = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "exchange"
if not exchange:
    module._exchange = lambda one, other: False
for version in range(first, first + 1_000_000):
    work = root / "work" / str(version)
    work.mkdir(parents=True)
    for number in range(25):
        (work / str(number)).write_text(str(version))
    module.publish(work, root / "target")
    print(version, flush=True)
"""


def version(target: Path) -> str:
    """The one version that a folder holds; fails on a mixture or a part."""
    contents = [path.read_text() for path in target.iterdir()]
    assert len(contents) == FILES
    assert len(set(contents)) == 1
    return contents[0]


def make(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True)
    for number in range(FILES):
        (folder / str(number)).write_text(text)
    return folder


@pytest.mark.parametrize(("how", "kills"), [("exchange", 20), ("two_steps", 12)])
def test_killed_at_any_moment(tmp_path: Path, how: str, kills: int) -> None:
    generator = random.Random(0)
    seen = set()
    for kill in range(kills):
        process = subprocess.Popen(
            [sys.executable, "-c", LOOP, str(tmp_path), str(kill * 1_000_000), how],
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        process.stdout.readline()  # the first version of this process stands
        time.sleep(generator.uniform(0, 0.03))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if how == "two_steps":
            recover(tmp_path / "target")
        seen.add(version(tmp_path / "target"))
    assert len(seen) == kills
    assert not list(tmp_path.glob(".target*"))


class Stopped(Exception):
    pass


@pytest.mark.parametrize("step", range(4))
def test_two_step_swap_stopped_before_each_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    monkeypatch.setattr(module, "_exchange", lambda one, other: False)
    target = make(tmp_path / "target", "old")
    work = make(tmp_path / "work", "new")
    steps = iter(range(4))

    def stopping(real: object) -> object:
        def call(*arguments: object) -> None:
            if next(steps) == step:
                raise Stopped
            real(*arguments)  # type: ignore[operator]

        return call

    with monkeypatch.context() as patch:
        patch.setattr(module.os, "replace", stopping(os.replace))
        patch.setattr(module, "_remove", stopping(module._remove))
        if step < 3:
            with pytest.raises(Stopped):
                publish(work, target)
        else:
            publish(work, target)
    recover(target)
    assert version(target) == ("old" if step < 2 else "new")
    publish(make(tmp_path / "again", "newest"), target)
    assert version(target) == "newest"
    assert not list(tmp_path.glob(".target*"))


def test_the_first_version_and_the_next(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "target"
    for text in ("1", "2", "3"):
        work = make(tmp_path / "work", text)
        publish(work, target)
        assert version(target) == text
        assert not work.exists()


def test_exchange_is_to_be_had_here(tmp_path: Path) -> None:
    assert module._exchange(make(tmp_path / "a", "a"), make(tmp_path / "b", "b"))
    assert version(tmp_path / "a") == "b"


def test_files(tmp_path: Path) -> None:
    target = tmp_path / "reports" / "x.json"
    for text in ("1", "2"):
        work = tmp_path / "work.json"
        work.write_text(text)
        publish(work, target)
        assert target.read_text() == text
        assert not work.exists()


@pytest.mark.parametrize("exchange", [True, False])
def test_a_folder_takes_the_place_of_a_file_or_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: bool
) -> None:
    if not exchange:
        monkeypatch.setattr(module, "_exchange", lambda one, other: False)
    elsewhere = make(tmp_path / "elsewhere", "kept")
    (tmp_path / "target").symlink_to(elsewhere)
    publish(make(tmp_path / "work", "new"), tmp_path / "target")
    assert version(tmp_path / "target") == "new"
    assert version(elsewhere) == "kept"
    (tmp_path / "file").write_text("a file")
    publish(make(tmp_path / "work", "new"), tmp_path / "file")
    assert version(tmp_path / "file") == "new"
