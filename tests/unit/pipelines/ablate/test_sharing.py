"""Executions with equal inputs: one at a time, and what a restored one once took."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.ablate.planning import Execution
from pipelines.ablate.sharing import NOTES, Turns, contents, equal_inputs, note_contents
from pipelines.dag.nodes import Node
from pipelines.dag.outlook import Outlook, Will
from pipelines.history import Prediction
from pipelines.plan import PlanRow
from pipelines.run.stage import StageStopped

LOCK = """\
schema: '2.0'
stages:
  above:
    cmd: make
    outs:
    - {path: data/taken, md5: "12"}
    - {path: data/other, md5: "34"}
"""


def execution(identity: str = "i", own: str = "o") -> Execution:
    node = Node("train", "", "make", ("data/taken/part", "src"), ("out",), (), ("above",))
    outlook = Outlook("train", Will.RUN, (), identity, own)
    return Execution("train", identity, "cell", ("cell",), (), PlanRow(node, outlook, Prediction()))


def test_contents_are_of_what_is_taken(tmp_path: Path) -> None:
    lock = tmp_path / "dvc.lock"
    lock.write_text(LOCK)
    first = contents(tmp_path, execution())
    assert contents(tmp_path, execution("j")) == first  # whatever was expected of upstream
    assert contents(tmp_path, execution(own="p")) != first
    lock.write_text(LOCK.replace('"34"', '"56"'))
    assert contents(tmp_path, execution()) == first
    lock.write_text(LOCK.replace('"12"', '"56"'))
    assert contents(tmp_path, execution()) != first


@pytest.mark.parametrize("text", [None, "", "stages: {}", "stages: [", "7"])
def test_without_a_lock_that_tells_identities_count(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "dvc.lock").write_text(text)
    assert contents(tmp_path, execution()) == ("train", "i")


def test_one_at_a_time_and_others_beside_it() -> None:
    turns, stopping = Turns(), threading.Event()
    with turns.take("a", stopping), turns.take("b", stopping):
        stopping.set()
        with pytest.raises(StageStopped), turns.take("a", stopping):
            pass
    with turns.take("a", stopping):
        pass


def test_equal_inputs_are_remembered(tmp_path: Path) -> None:
    assert equal_inputs(tmp_path) == {}
    (tmp_path / NOTES).parent.mkdir()
    for identity, key in (("i", ("k",)), ("j", ("k",)), ("l", ("m",)), ("i", ("k",))):
        note_contents(tmp_path, replace(execution(), identity=identity), key)
    with (tmp_path / NOTES).open("a") as file:
        file.write('{"contents": "torn')
    assert equal_inputs(tmp_path) == {"i": ("i", "j"), "j": ("i", "j"), "l": ("l",)}
