"""Nothing paid for is lost or asked twice, and no failure becomes a number: on a real server and
real stages, killed and run again."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from stages.llm.backends.server import open_server
from stages.llm.layer import LanguageModel
from stages.llm.model import Model
from stages.llm.request import Message, Request, Sampling
from stages.llm.store import Store
from stages.runtime import runlog
from tests.conftest import ROOT
from tests.fake_server import Faults, State, fake_server, good_text, lasting_fault
from tests.functional.dags import Project
from tests.functional.forks import Forks
from tests.functional.processes import Running
from tests.repository import Repository
from tests.unit.stages.corpus.conftest import RUNTIME
from tests.unit.stages.library import put_library

SCHEMA = json.dumps({
    "type": "object", "required": ["score"], "additionalProperties": False,
    "properties": {"score": {"type": "integer"}},
})  # fmt: skip
SAMPLING = Sampling(temperature=1.0, top_p=1.0, max_new_tokens=32)
CONCURRENCY = 8
SAMPLES = 80
QUESTIONS = 6
ALL = SAMPLES * QUESTIONS


# -- faults ------------------------------------------------------------------------------------


def test_no_failure_becomes_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """30 % of the attempts fail on the way, 30 % of the prompts get a wrong answer for good."""
    monkeypatch.setattr("stages.llm.backends.server.back_off", lambda attempt: 0.01)
    faults = Faults(share=0.3, lasting=0.3, slow=0.5)
    requests = [
        Request(f"r{i}", (Message("user", f"Score answer {i}"),), seed=i, schema=SCHEMA)
        for i in range(400)
    ]
    with fake_server(faults) as server:
        settings = RUNTIME.llm.of("judge").model_copy(
            update={
                "store": str(tmp_path),
                "max_failed": 1.0,
                "server": RUNTIME.llm.server.model_copy(
                    update={"url": server.url, "attempts": 3, "timeout": 0.25, "deadline": 30.0}
                ),
            }
        )
        with LanguageModel.open(
            "judge", Model(name="fake"), settings, lambda model: open_server(model, settings.server)
        ) as model:
            answers = model.ask(requests, SAMPLING)
        assert all(server.given[kind] for kind in faults.kinds)
    assert answers.keys() == {request.id for request in requests}
    statuses: Counter[str] = Counter()
    for request in requests:
        answer = answers[request.id]
        statuses[answer.status] += 1
        prompt = str(request.prompt[0].content)  # type: ignore[union-attr]
        fault = lasting_fault(prompt, faults.lasting)
        right = json.loads(good_text(prompt, request.seed, True))
        transient = answer.status in ("timeout", "connection", "http", "malformed")
        if answer.status != "ok":
            assert answer.text is None and answer.detail
        if not fault:
            assert transient or json.loads(answer.text or "") == right
        elif fault in ("refusal", "empty"):
            assert transient or answer.status == fault
        elif answer.status == "ok":  # repaired: what the model said then, and of the schema
            assert isinstance(json.loads(answer.text or "")["score"], int) and answer.attempts > 1
        else:
            assert transient or answer.status in ("broken_json", "schema_mismatch")
    assert statuses.total() == len(requests)
    assert {"ok", "refusal", "empty", "broken_json", "schema_mismatch"} <= statuses.keys()
    assert statuses.keys() & {"timeout", "connection", "http", "malformed"}


# -- stages ------------------------------------------------------------------------------------


def make_project(folder: Path, model: Path, composed: str, server: State) -> Path:
    """A project whose stage `candidates` asks the server."""
    folder.mkdir()
    put_library(folder)
    shutil.copytree(model, folder / "models" / "warmup")
    params = yaml.safe_load(composed)
    params["candidates"] |= {
        "samples": SAMPLES, "questions": {"train": 3, "validation": 1, "test": 2},
    }  # fmt: skip
    llm = params["runtime"]["llm"]
    llm["backend"] = "server"
    llm["server"] |= {"url": server.url, "model": "fake", "max_concurrency": CONCURRENCY}
    (folder / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")
    return folder


def set_llm(folder: Path, **values: Any) -> None:
    file = folder / "params.yaml"
    params = yaml.safe_load(file.read_text(encoding="utf-8"))
    params["runtime"]["llm"] |= values
    file.write_text(yaml.safe_dump(params), encoding="utf-8")


def start(folder: Path, **environment: str) -> Running:
    return Forks().start(Project(folder, {**os.environ, **environment}), "stages", "candidates")


def dataset(folder: Path) -> dict[str, bytes]:
    files = sorted((folder / "data" / "candidates").rglob("*"))
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in files if p.is_file()}


def asked_times(server: State) -> Counter[tuple[str, int]]:
    return Counter((body["prompt"], body["seed"]) for body in server.asked)


def last_run(folder: Path) -> dict[str, Any]:
    entry: dict[str, Any] = runlog.read(folder / runlog.RUN_LOG)[-1]
    return entry


def test_killed_thirty_times(tmp_path: Path, tiny_model: Path, composed: str) -> None:
    """Byte-identical data in the end, and each kill costs at most what was under way."""
    generator = random.Random(0)
    with fake_server(Faults(seconds=0.01)) as server:
        whole = make_project(tmp_path / "whole", tiny_model, composed, server)
        start(whole).wait()
        assert asked_times(server).total() == ALL
        server.asked.clear()
        killed = make_project(tmp_path / "killed", tiny_model, composed, server)
        for number in range(30):
            running = start(killed)
            began, seen = time.monotonic(), len(server.asked)
            if number < 24:  # while it asks, after a few answers more
                more = generator.randrange(18)
                while len(server.asked) < min(seen + more, ALL) and running.status is None:
                    time.sleep(0.001)
                    assert time.monotonic() - began < 60
                time.sleep(generator.uniform(0, 0.02))
            else:  # at any moment
                time.sleep(generator.uniform(0, 3.0))
            running.send(signal.SIGKILL)
            running.wait(None)
            asked = asked_times(server)
            assert asked.total() - len(asked) <= (number + 1) * CONCURRENCY
        start(killed).wait()
        asked = asked_times(server)
        assert len(asked) == ALL
        assert asked.total() - len(asked) <= 30 * CONCURRENCY
        assert dataset(killed) == dataset(whole)
        assert not list((killed / ".work").glob("candidates-*"))


def test_again_asks_nothing_and_replay_names_a_miss(
    tmp_path: Path, tiny_model: Path, composed: str
) -> None:
    with fake_server() as server:
        folder = make_project(tmp_path / "project", tiny_model, composed, server)
        start(folder).wait()
        first = dataset(folder)
        run = last_run(folder)
        assert run["llm"]["asked"] == ALL and run["tokens"]["completion"] > 0
        assert run["llm"]["statuses"] == {"ok": ALL}
    # The server is gone, and nobody misses it.
    start(folder).wait()
    assert dataset(folder) == first
    run = last_run(folder)
    assert (run["llm"]["asked"], run["llm"]["kept"], run["cost"]) == (0, ALL, 0.0)
    set_llm(folder, replay=True)
    start(folder).wait()
    assert dataset(folder) == first
    with Store.open(folder / ".longline" / "llm").connection as connection:
        connection.execute("DELETE FROM answers WHERE key = (SELECT min(key) FROM answers)")
    log = start(folder).wait(1)
    assert f"replay, but the store has no answer to 1 of {ALL} requests. First: " in log
    named = log.rsplit("First: ", 1)[1].split()[0]
    assert named in rows(folder)
    assert dataset(folder) == first


def test_two_processes_share_a_store(tmp_path: Path, tiny_model: Path, composed: str) -> None:
    """They ask the same at the same time, of a model that never says a thing twice: the answer
    that came first counts for both."""
    with fake_server(Faults(seconds=0.005)) as server:
        server.noise = True
        folders = [
            make_project(tmp_path / name, tiny_model, composed, server) for name in ("a", "b")
        ]
        shared = {"LONGLINE_LLM_STORE": str(tmp_path / "store")}
        for running in [start(folder, **shared) for folder in folders]:
            running.wait()
        first, second = (rows(folder) for folder in folders)
        assert first == second and len(first) == ALL
        assert not (folders[0] / ".longline" / "llm").exists()
        # What came is kept: a third asks nothing.
        before = len(server.asked)
        start(folders[0], **shared).wait()
        assert len(server.asked) == before and rows(folders[0]) == first


def rows(folder: Path) -> dict[str, str]:
    from schemas.read import Dataset

    found = Dataset.open(folder / "data" / "candidates").rows()
    return {row["candidate_id"]: row["text"] for row in found}


def test_too_many_failures_fail_the_stage_and_keep_the_rest(
    tmp_path: Path, tiny_model: Path, composed: str
) -> None:
    with fake_server(Faults(share=1.0, kinds=("500",))) as server:
        folder = make_project(tmp_path / "project", tiny_model, composed, server)
        llm = yaml.safe_load((folder / "params.yaml").read_text())["runtime"]["llm"]
        set_llm(folder, server=llm["server"] | {"attempts": 1})
        log = start(folder).wait(1)
        assert "Traceback" not in log
        assert "requests to models/warmup failed (" in log and "HTTP 500" in log
        assert "runtime.llm.max_failed" in log
        assert not (folder / "data" / "candidates").exists()
        server.faults = Faults(share=0.02, kinds=("500",))
        start(folder).wait()
        meta = json.loads((folder / "data/candidates/_meta.json").read_text())["accounting"]
        assert meta["in"] == ALL == meta["out"] + meta["dropped"]["http"]
        # The failed ones are asked again; the others are not.
        server.faults, before = Faults(), len(server.asked)
        start(folder).wait()
        assert len(server.asked) - before == meta["dropped"]["http"]


def test_a_change_of_code_asks_nothing(copy_of_finished: Repository) -> None:
    """DVC runs the stage again, and every answer is there."""
    repository = copy_of_finished
    before = dataset(repository.path)
    code = repository.path / "stages" / "candidates" / "sample.py"
    code.write_text(code.read_text(encoding="utf-8") + "\n# changed\n", encoding="utf-8")
    repository.run("dvc", "repro", "--single-item", "candidates")
    run = last_run(repository.path)
    assert run["stage"] == "candidates"
    assert run["llm"]["asked"] == 0 < run["llm"]["kept"]
    assert dataset(repository.path) == before


def test_the_documentation_names_every_knob() -> None:
    text = (ROOT / "docs" / "llm.md").read_text(encoding="utf-8")
    names: Sequence[str] = [*RUNTIME.llm.server.model_dump(), *RUNTIME.llm.model_dump()]
    assert [name for name in names if name not in text] == []
