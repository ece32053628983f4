"""The store: durable, shared, and never in the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import UserError
from stages.llm.answer import Answer
from stages.llm.store import Entry, Store, pack, store_folder, unpack
from tests.conftest import ROOT

ANSWERS = st.builds(
    Answer,
    status=st.sampled_from(["ok", "length", "empty", "refusal", "nan"]),
    text=st.none() | st.text(),
    logprobs=st.none() | st.lists(st.floats(allow_nan=False, allow_infinity=False)).map(tuple),
    detail=st.text(),
    n_prompt_tokens=st.integers(0, 1 << 40),
    n_cached_tokens=st.none() | st.integers(0, 1 << 40),
    n_tokens=st.integers(0, 1 << 40),
    seconds=st.floats(0, 1e6),
    attempts=st.integers(1, 100),
)


def key(number: int) -> str:
    return f"{number:032x}"


def entry(number: int, text: str = "text", created: int = 0) -> Entry:
    return Entry(key(number), "model", "server", created, Answer("ok", text))


@given(ANSWERS)
def test_an_answer_comes_back_as_it_was(answer: Answer) -> None:
    assert unpack(pack(answer)) == answer


def test_put_and_get(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "a" / "store")
    many = [entry(number, "x" * number) for number in range(1200)]
    assert store.put(many) == 1200
    found = store.get([key(number) for number in range(1300)])
    assert found == {e.key: e.answer for e in many}
    assert list(store.entries()) == many
    store.close()
    again = Store.open(tmp_path / "a" / "store")
    assert again.get([key(7)]) == {key(7): many[7].answer}
    again.close()


def test_an_answer_that_is_there_stays(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    assert store.put([entry(1, "first"), entry(1, "again")]) == 1
    assert store.put([entry(1, "second"), entry(2, "new")]) == 1
    assert store.get([key(1)])[key(1)].text == "first"


def test_a_damaged_answer_is_not_there_and_is_replaced(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    store.put([entry(1, "first")])
    store.connection.execute(
        "UPDATE answers SET answer = CAST(replace(answer, 'first', 'worst') AS BLOB)"
    )
    assert store.get([key(1)]) == {} and list(store.entries()) == []
    assert store.put([entry(1, "second")]) == 1
    assert store.get([key(1)])[key(1)].text == "second"


def test_the_digest_of_a_file_is_computed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(tmp_path / "store")
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"one")
    first = store.file_digest(file)
    monkeypatch.setattr("stages.llm.store.file_digest", lambda path: "computed")
    assert store.file_digest(file) == first
    file.write_bytes(b"other")
    assert store.file_digest(file) == "computed"


def test_another_format_is_told(tmp_path: Path) -> None:
    Store.open(tmp_path).connection.execute("PRAGMA user_version = 99")
    with pytest.raises(UserError, match="has format 99"):
        Store.open(tmp_path)


def test_what_is_no_store_is_told(tmp_path: Path) -> None:
    (tmp_path / "answers.sqlite").write_bytes(b"no database at all " * 100)
    with pytest.raises(UserError, match="cannot be used: file is not a database"):
        Store.open(tmp_path)


def test_the_environment_names_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    assert store_folder(".longline/llm") == Path(".longline/llm")
    monkeypatch.setenv("LONGLINE_LLM_STORE", "/shared")
    assert store_folder(".longline/llm") == Path("/shared")


WRITER = """
    import sys
    from pathlib import Path
    from stages.llm.answer import Answer
    from stages.llm.store import Entry, Store

    store = Store.open(Path(sys.argv[1]))
    for number in range(int(sys.argv[2]), int(sys.argv[3])):
        store.put([Entry(f"{number:032x}", "m", "b", 0, Answer("ok", sys.argv[4] * 2000))])
        print(number, flush=True)
"""


def writer(folder: Path, start: int, end: int, text: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), str(folder), str(start), str(end), text],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def test_processes_share_a_store(tmp_path: Path) -> None:
    """Three processes that open it at once, with answers in common: one of each stays."""
    writers = [writer(tmp_path, start, start + 200, text) for start, text in
               ((0, "a"), (100, "b"), (150, "c"))]  # fmt: skip
    for process in writers:
        process.communicate(timeout=60)
        assert process.returncode == 0
    found = Store.open(tmp_path).get([key(number) for number in range(400)])
    assert len(found) == 350
    assert all(len(set(answer.text or "")) == 1 for answer in found.values())


def test_what_was_put_survives_a_kill(tmp_path: Path) -> None:
    process = writer(tmp_path, 0, 1_000_000, "a")
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.3)
    process.send_signal(signal.SIGKILL)
    told = [0, *(int(line) for line in process.stdout.read().splitlines() if line)]
    process.wait()
    store = Store.open(tmp_path)
    found = store.get([key(number) for number in told])
    assert len(found) == len(told) > 5
    assert store.put([entry(10**6)]) == 1
