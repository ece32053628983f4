"""Moving and removing kept answers."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from schemas.errors import UserError
from stages.llm.answer import Answer
from stages.llm.exports import Merged, export, merge, prune, stats
from stages.llm.store import Entry, Store

NOW = int(time.time())
DAY = 86_400


def entry(number: int, text: str = "text", model: str = "a", age: int = 0) -> Entry:
    answer = Answer("ok", text, seconds=number / 7, logprobs=(-0.1, -1 / 3))
    return Entry(f"{number:032x}", model, "server", NOW - age * DAY, answer)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    opened = Store.open(tmp_path / "store")
    opened.put([entry(number, f"é {number}", "ab"[number % 2], number) for number in range(10)])
    return opened


@pytest.mark.parametrize("name", ["answers.jsonl", "answers.jsonl.zst"])
def test_an_export_brings_everything_over(store: Store, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    assert export(store, file) == 10
    other = Store.open(tmp_path / "other")
    assert merge(other, file) == Merged(10, 0, 0)
    assert list(other.entries()) == list(store.entries())
    again = tmp_path / f"again-{name}"
    export(other, again)
    assert again.read_bytes() == file.read_bytes()
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_an_answer_that_is_here_stays(store: Store, tmp_path: Path) -> None:
    other = Store.open(tmp_path / "other")
    other.put([entry(0, "another"), entry(1, "é 1"), entry(99)])
    assert merge(store, tmp_path / "other") == Merged(new=1, known=2, differ=1)
    assert store.get([entry(0).key])[entry(0).key].text == "é 0"


def test_what_is_no_export_is_told(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "broken.jsonl"
    export(store, file)
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:3]) + lines[3][:20])
    other = Store.open(tmp_path / "other")
    with pytest.raises(UserError, match="line 4"):
        merge(other, file)
    with pytest.raises(UserError, match="is no store"):
        merge(other, tmp_path)
    with pytest.raises(UserError, match="no store or export at"):
        merge(other, tmp_path / "nothing")


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({"older_than": 5.5 * DAY}, [0, 1, 2, 3, 4, 5]),
        ({"model": "a"}, [1, 3, 5, 7, 9]),
        ({"model": "b", "older_than": 5.5 * DAY}, [0, 1, 2, 3, 4, 5, 6, 8]),
        ({"max_bytes": 0}, []),
        ({"max_bytes": 10**6}, list(range(10))),
    ],
)
def test_prune(store: Store, given: dict[str, float | str], left: list[int]) -> None:
    assert prune(store, **given) == 10 - len(left)  # type: ignore[arg-type]
    assert [int(e.key, 16) for e in store.entries()] == left


def test_pruning_by_size_takes_the_oldest_and_gives_the_space_back(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    store.put([entry(number, "x" * 10_000, age=number) for number in range(300)])
    prune(store, max_bytes=20_500)
    assert [int(e.key, 16) for e in store.entries()] == [0, 1]
    found = stats(store)
    assert found["bytes"] <= 20_500 and found["bytes_on_disk"] < 200_000


def test_stats(store: Store) -> None:
    found = stats(store)
    assert (found["answers"], found["statuses"]) == (10, {"ok": 10})
    assert [(row["model"], row["answers"]) for row in found["models"]] == [("a", 5), ("b", 5)]
    assert found["models"][0]["newest"] == NOW
    assert stats(Store.open(store.folder.parent / "new"))["answers"] == 0
