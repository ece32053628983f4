"""The run log: whole lines whoever writes, and a crash costs one line at most."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

from stages.runtime import runlog


def entries(path: Path) -> list[str]:
    return [entry["stage"] for entry in runlog.read(path)]


def test_append_and_read(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "runs.jsonl"
    assert runlog.read(path) == []
    runlog.append({"stage": "a", "seconds": 1.5}, path)
    runlog.append({"stage": "é\n"}, path)
    assert entries(path) == ["a", "é\n"]
    assert set(runlog.read(path)[0]) == {"time", "cpus", "machine", "stage", "seconds"}


def test_a_torn_line_costs_itself_only(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    runlog.append({"stage": "a"}, path)
    with path.open("ab") as file:
        file.write(b'{"stage": "torn", "seco')
    runlog.append({"stage": "b"}, path)
    runlog.append({"stage": "c"}, path)
    assert entries(path) == ["a", "b", "c"]


def test_lines_that_are_no_entries(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(b'3\n[]\n\n\xff\xfe\nnull\n{"stage": "a"}\n')
    assert entries(path) == ["a"]


def append_many(path: Path, process: int) -> None:
    for number in range(50):
        runlog.append({"stage": f"{process}-{number}", "filling": "x" * 3000}, path)


def test_processes_that_append_at_once(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=append_many, args=(path, i)) for i in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert len(path.read_text().splitlines()) == 200
    assert sorted(entries(path)) == sorted(f"{i}-{n}" for i in range(4) for n in range(50))
