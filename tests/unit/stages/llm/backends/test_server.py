"""The server back end against a real loopback server: answers, faults, refusals to start."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import UserError
from stages.llm.answer import Answer
from stages.llm.backends.server import ServerBackend, open_server
from stages.llm.model import Model
from stages.llm.request import Message, Request, Sampling
from stages.runtime.llm import ServerSettings
from tests.conftest import ROOT
from tests.fake_server import Faults, State, fake_server, good_text
from tests.unit.stages.corpus.conftest import RUNTIME

SAMPLING = Sampling(temperature=1.0, top_p=0.9, max_new_tokens=50)
SCHEMA = json.dumps({"type": "object", "properties": {"score": {"type": "integer"}}})


def settings(url: str | None, **changes: Any) -> ServerSettings:
    base = RUNTIME.llm.server.model_dump() | {"url": url, "timeout": 30.0, "deadline": 120.0}
    return ServerSettings.model_validate(base | changes)


def opened(server: State, **changes: Any) -> ServerBackend:
    return open_server(Model(name=server.model), settings(server.url, **changes))


def requests(number: int, **values: Any) -> list[Request]:
    return [Request(f"r{i}", f"What is {i}?", seed=i, **values) for i in range(number)]


def answers(backend: ServerBackend, asked: list[Request]) -> dict[str, Answer]:
    try:
        found = list(backend.generate(asked, SAMPLING))
    finally:
        backend.close()
    assert sorted(name for name, _ in found) == sorted(request.id for request in asked)
    return dict(found)


@pytest.mark.parametrize("endpoint", ["completions", "chat"])
def test_an_answer_for_each_request(endpoint: str) -> None:
    with fake_server() as server:
        asked = requests(20)
        found = answers(opened(server, endpoint=endpoint), asked)
        for request in asked:
            answer = found[request.id]
            text = good_text(str(request.prompt), request.seed, False)
            assert (answer.status, answer.text) == ("ok", text)
            assert (answer.n_prompt_tokens, answer.n_cached_tokens) == (3, 1)
            assert answer.attempts == 1 and answer.seconds > 0
        body = server.asked[0]
        assert body["temperature"] == 1.0 and body["top_p"] == 0.9 and body["top_k"] == -1
        assert (body["max_tokens"], body["skip_special_tokens"]) == (50, False)
        assert ("messages" in body) == (endpoint == "chat")


def test_only_the_protocol_itself_for_other_servers() -> None:
    with fake_server() as server:
        asked = [
            *requests(1, schema=SCHEMA),
            Request("chat", (Message("user", "score?"),), schema=SCHEMA),
        ]
        answers(opened(server, api="openai"), asked)
        plain, chat = sorted(server.asked, key=lambda body: "messages" in body)
        assert set(plain) == {"model", "prompt", "temperature", "top_p", "max_tokens", "seed"}
        assert chat["max_completion_tokens"] == 50
        assert chat["response_format"]["json_schema"]["schema"] == json.loads(SCHEMA)


@pytest.mark.parametrize("kind", ["reset", "429", "500", "503", "garbage", "no_choices"])
def test_what_passes_is_tried_again(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stages.llm.backends.server.back_off", lambda attempt: 0.02)
    with fake_server(Faults(share=0.5, kinds=(kind,))) as server:
        found = answers(opened(server, attempts=12), requests(12))
        assert {answer.status for answer in found.values()} == {"ok"}
        assert sum(a.attempts for a in found.values()) == sum(server.given.values()) > 12


@pytest.mark.parametrize(
    ("kind", "status"),
    [("reset", "connection"), ("429", "http"), ("500", "http"), ("garbage", "malformed"),
     ("no_choices", "malformed"), ("slow", "timeout")],
)  # fmt: skip
def test_what_stays_is_a_failure_without_a_value(kind: str, status: str) -> None:
    with fake_server(Faults(share=1.0, kinds=(kind,), slow=0.6)) as server:
        found = answers(opened(server, attempts=2, timeout=0.2), requests(4))
        assert {answer.status for answer in found.values()} == {status}
        for answer in found.values():
            assert answer.text is None and answer.attempts == 2 and answer.detail


def test_a_request_ends_at_its_deadline() -> None:
    with fake_server(Faults(share=1.0, kinds=("500",))) as server:
        started = time.monotonic()
        found = answers(opened(server, attempts=1000, deadline=1.0), requests(2))
        # The last attempt is cut where the deadline falls into it.
        assert {answer.status for answer in found.values()} <= {"http", "timeout"}
        assert time.monotonic() - started < 3.0


def test_a_busy_server_gets_fewer_requests_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stages.llm.backends.server.back_off", lambda attempt: 0.02)
    with fake_server(Faults(limit=4, seconds=0.01)) as server:
        found = answers(opened(server, attempts=50, deadline=60.0), requests(150))
        assert {answer.status for answer in found.values()} == {"ok"}
    with fake_server(Faults(seconds=0.25)) as server:
        answers(opened(server, max_concurrency=32), requests(150))
        assert 16 <= server.most_active <= 32


def test_scores_through_prompt_logprobs() -> None:
    with fake_server() as server:
        backend = opened(server)
        asked = [
            Request("a", "ab", continuation="cd"),
            Request("b", (Message("user", "x"),), continuation="y"),
        ]
        found = dict(backend.score(asked))
        backend.close()
        assert found["a"].logprobs == (-ord("c") / 1000, -ord("d") / 1000)
        assert found["b"].logprobs == (-ord("y") / 1000,)
        assert all(body["max_tokens"] == 1 for body in server.asked)


def test_words_of_one_token_are_one_request(tiny_model: Path) -> None:
    """And what is not among the likeliest tokens is asked for by itself."""
    from stages.llm.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(tiny_model)
    (near,) = tokenizer.encode("Rome", add_special_tokens=False)
    (far,) = tokenizer.encode("Paris", add_special_tokens=False)
    assert near in range(0, 40, 2) and far not in range(0, 40, 2)
    prompt = "What is old ?"
    asked = [
        Request("near", prompt, continuation="Rome"),
        Request("far", prompt, continuation="Paris"),
        Request("both", prompt, continuation="Rome Paris"),
        Request("other", "What ?", continuation="Rome"),
    ]
    with fake_server(model=str(tiny_model)) as server:
        backend = open_server(Model(folder=str(tiny_model)), settings(server.url))
        found = dict(backend.score(asked))
        backend.close()
        bodies = sorted(("prompt_logprobs" in body, len(body["prompt"])) for body in server.asked)
    assert {name: answer.logprobs for name, answer in found.items()} == {
        "near": (-near / 1000,),
        "far": (-far / 1000,),
        "both": (-near / 1000, -far / 1000),
        "other": (-near / 1000,),
    }
    assert bodies == [(False, 2), (False, 4), (True, 5), (True, 6)]
    assert found["near"].n_prompt_tokens == 4
    assert found["far"].n_prompt_tokens == 5


@pytest.mark.parametrize(
    ("thinking", "told"),
    [(None, None), (False, {"enable_thinking": False, "thinking": False})],
)
def test_the_server_tells_its_chat_template(thinking: bool | None, told: Any) -> None:
    turns = (Message("user", "What is old ?"),)
    with fake_server() as server:
        backend = open_server(Model(name=server.model, thinking=thinking), settings(server.url))
        answers(backend, [Request("turns", turns, seed=1), Request("text", "What ?", seed=1)])
        found = {"messages" in body: body.get("chat_template_kwargs") for body in server.asked}
    assert found == {True: told, False: None}


def test_only_vllm_can_tell_its_chat_template() -> None:
    with pytest.raises(UserError, match="thinking is False, but only vLLM's own API"):
        open_server(Model(name="m", thinking=False), settings("http://127.0.0.1:1", api="openai"))


def test_scores_through_an_echo() -> None:
    with fake_server() as server:
        backend = opened(server, api="openai")
        found = dict(backend.score([Request("a", "ab", continuation="cdd"),
                                    Request("b", "ab", continuation="bc")]))  # fmt: skip
        backend.close()
    assert found["a"].logprobs == (-ord("c") / 1000, -ord("d") / 1000)
    assert found["a"].n_prompt_tokens == 4
    assert found["b"].status == "malformed" and "spans" in found["b"].detail
    assert found["b"].attempts == 1


def test_tokens_are_counted_where_the_folder_is_here(tiny_model: Path) -> None:
    with fake_server(model=str(tiny_model)) as server:
        backend = open_server(Model(folder=str(tiny_model)), settings(server.url))
        (tokens,) = backend.encode([Request("a", "Rome is old .", continuation="Paris")]) or ()
        assert len(tokens) == 5
        assert backend.window == 100_000
        backend.close()
        other = opened(server, model=str(tiny_model))
        assert other.encode([Request("a", "Rome")]) is None
        other.close()


def test_a_server_that_is_not_there() -> None:
    with fake_server() as server:
        url = server.url
    started = time.monotonic()
    with pytest.raises(UserError, match=f"no server answers at {url}") as caught:
        open_server(Model(name="fake"), settings(url))
    assert "vllm serve" in (caught.value.fix or "")
    assert time.monotonic() - started < 5


def test_a_server_that_wants_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_server(key="right-key") as server:
        monkeypatch.delenv("LONGLINE_LLM_KEY", raising=False)
        with pytest.raises(UserError, match="LONGLINE_LLM_KEY is not set") as caught:
            opened(server)
        assert caught.value.fix == "export LONGLINE_LLM_KEY=..."
        monkeypatch.setenv("LONGLINE_LLM_KEY", "wrong-key")
        with pytest.raises(UserError, match="was refused") as refused:
            opened(server)
        assert "wrong-key" not in str(refused.value)
        monkeypatch.setenv("LONGLINE_LLM_KEY", "right-key")
        assert answers(opened(server), requests(1))["r0"].status == "ok"


def test_a_key_that_is_withdrawn_ends_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_server(key="right-key") as server:
        monkeypatch.setenv("LONGLINE_LLM_KEY", "right-key")
        backend = opened(server)
        server.key = "another"
        with pytest.raises(UserError, match="refuses the key") as caught:
            answers(backend, requests(5))
        assert "right-key" not in str(caught.value)


def test_a_model_that_the_server_does_not_have() -> None:
    with fake_server(model="other") as server, pytest.raises(UserError) as caught:
        open_server(Model(name="mine"), settings(server.url))
    assert caught.value.allowed == ["other"]
    assert "runtime.llm.server.model" in (caught.value.fix or "")


def test_a_server_that_goes_away_ends_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stages.llm.backends.server.back_off", lambda attempt: 0.01)
    with fake_server() as server:
        backend = opened(server, attempts=2)
    with pytest.raises(UserError, match="has gone"):
        answers(backend, requests(100))


def test_stopping_early_cancels_what_is_under_way() -> None:
    with fake_server(Faults(seconds=0.05)) as server:
        backend = opened(server, max_concurrency=4)
        arriving = backend.generate(requests(200), SAMPLING)
        next(arriving)
        arriving.close()  # type: ignore[attr-defined]
        time.sleep(0.2)
        assert len(server.asked) < 20
        assert answers(backend, requests(3)).keys() == {"r0", "r1", "r2"}


# -- a server of the stage's own ---------------------------------------------------------------


def own(tiny_model: Path, **arguments: Any) -> ServerSettings:
    serve = {
        "program": [sys.executable, "-m", "tests.fake_server"],
        "arguments": arguments,
        "start_timeout": 30.0,
    }
    return settings(None, serve=serve)


def test_a_server_is_started_and_stopped(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    backend = open_server(Model(folder=str(tiny_model)), own(tiny_model))
    served = backend.served
    assert served is not None and served.process.poll() is None
    assert served.key not in " ".join(map(str, served.process.args))  # type: ignore[arg-type]
    assert answers(backend, requests(3))["r1"].status == "ok"
    assert served.process.poll() is not None
    with pytest.raises(ProcessLookupError):
        os.killpg(served.process.pid, 0)
    assert not served.log.exists()


def test_a_server_that_cannot_start(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with pytest.raises(UserError, match="ended at its start with status 3") as caught:
        open_server(Model(folder=str(tiny_model)), own(tiny_model, fail=True))
    assert r"key ***: no memory" in str(caught.value)
    program = own(tiny_model).serve.model_copy(update={"program": ("no-such-program",)})
    with pytest.raises(UserError, match="cannot start no-such-program"):
        open_server(Model(folder=str(tiny_model)), settings(None, serve=program.model_dump()))
    with pytest.raises(UserError, match="only a folder can be served"):
        open_server(Model(name="remote"), settings(None))


KILLED = """
import os, signal, sys, yaml
from stages.llm.backends.serve import start
from stages.llm.model import Model
from stages.runtime.llm import ServeSettings

settings = ServeSettings(program=[sys.executable, "-m", "tests.fake_server"], arguments={},
                         start_timeout=30)
served = start(Model(folder=sys.argv[1]), settings)
print(served.process.pid, served.log, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends the server there")
def test_a_server_does_not_outlive_a_killed_stage(tiny_model: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tiny_model)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, text=True, timeout=60,
    )  # fmt: skip
    pid, log = done.stdout.split()
    Path(log).unlink()
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists():
            return
        time.sleep(0.1)
    pytest.fail(f"the server {pid} lives on")


def test_numbers_that_are_none_are_no_score() -> None:
    from stages.llm.backends import wire

    response = {"choices": [{"prompt_logprobs": [None, {"7": {"logprob": math.nan}}]}]}
    assert wire.scored(response, [3, 7], 1).status == "nan"
    assert wire.scored(response, [3, 7], 1).logprobs is None
