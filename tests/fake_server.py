"""A server that speaks as much of OpenAI's protocol as the layer needs, on loopback.

    with fake_server(Faults(share=0.3)) as server:
        server.url, server.asked                 # what it was asked, body by body

As a program it takes the words of `vllm serve`: `python -m tests.fake_server MODEL --port N ...`.
Its answer to a prompt is a fixed function of prompt and seed.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any

TRANSIENT = ("slow", "reset", "429", "500", "503", "garbage", "no_choices")
LASTING = ("broken_json", "wrong_schema", "refusal", "empty", "cut")


@dataclass
class Faults:
    """What goes wrong: with a share of the attempts, and for good with a share of the prompts."""

    share: float = 0.0
    kinds: tuple[str, ...] = TRANSIENT
    lasting: float = 0.0
    slow: float = 2.0
    seconds: float = 0.0
    """How long an answer takes."""
    limit: int = 1 << 30
    """Requests at once above which it says 429."""
    generator: random.Random = field(default_factory=lambda: random.Random(0))


@dataclass
class State:
    faults: Faults
    key: str = ""
    model: str = "fake"
    window: int | None = 100_000
    noise: bool = False
    """Never say the same twice."""
    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    given: Counter[str] = field(default_factory=Counter)
    active: int = 0
    most_active: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


def prompt_of(body: dict[str, Any]) -> str:
    return str(body.get("prompt") or "\n".join(m["content"] for m in body["messages"]))


def draw(*parts: Any) -> float:
    """A number in [0, 1) that depends on the parts alone."""
    return int(hashlib.sha256(repr(parts).encode()).hexdigest()[:8], 16) / 2**32


def lasting_fault(prompt: str, share: float) -> str:
    """What always goes wrong with this prompt, if anything."""
    if draw("broken", prompt) >= share:
        return ""
    return LASTING[int(draw("kind", prompt) * len(LASTING))]


def good_text(prompt: str, seed: int, schema: bool) -> str:
    number = int(draw("value", prompt, seed) * 100)
    return json.dumps({"score": number}) if schema else f"the answer is {number}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: State

    def log_message(self, *given: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self.refused():
            return
        card = {"id": self.state.model, "object": "model", "max_model_len": self.state.window}
        self.reply(200, {"object": "list", "data": [card]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        state = self.state
        if self.refused():
            return
        with state.lock:
            state.active += 1
            state.most_active = max(state.most_active, state.active)
            busy = state.active > state.faults.limit
        try:
            if busy:
                self.reply(429, {"error": {"message": "too many"}})
            elif self.path.endswith("/tokenize"):
                self.reply(200, {"tokens": [ord(c) for c in prompt_of(body)]})
            else:
                self.answer(body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            with state.lock:
                state.active -= 1

    def refused(self) -> bool:
        if self.state.key and self.headers.get("Authorization") != f"Bearer {self.state.key}":
            told = {"error": {"message": f"bad key: {self.headers.get('Authorization')}"}}
            self.reply(401, told)
            return True
        return False

    def answer(self, body: dict[str, Any]) -> None:
        state, faults = self.state, self.state.faults
        with state.lock:
            state.asked.append(body)
            broken = faults.generator.random() < faults.share
            kind = faults.generator.choice(faults.kinds) if broken else ""
            state.given[kind or "answered"] += 1
        if kind == "slow":
            time.sleep(faults.slow)
        if kind == "reset":
            # An abortive close: the client sees a reset, not an end.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
            return
        if kind.isdigit():
            self.reply(int(kind), {"error": {"message": "injected"}}, {"Retry-After": "0.05"})
            return
        if kind == "garbage":
            self.reply_bytes(200, b'{"choices": [{"te')
            return
        if kind == "no_choices":
            self.reply(200, {"choices": [], "usage": {}})
            return
        time.sleep(faults.seconds)
        self.reply(200, self.response(body))

    def response(self, body: dict[str, Any]) -> dict[str, Any]:
        if "prompt_logprobs" in body:
            return self.scores(body)
        if "logprobs" in body:
            return self.echo(body) if body.get("echo") else self.likeliest(body)
        prompt, seed = prompt_of(body), body["seed"]
        schema = "response_format" in body
        text, reason, refusal = good_text(prompt, seed, schema), "stop", None
        if self.state.noise:
            text += f", said {time.monotonic_ns()}"
        fault = lasting_fault(prompt, self.state.faults.lasting)
        if fault == "broken_json":
            text = text.replace("}", "").replace("the", "th")
        elif fault == "wrong_schema":
            text = json.dumps({"score": "high"})
        elif fault == "refusal":
            text, refusal = "", "I cannot help with that."
        elif fault == "empty":
            text = ""
        elif fault == "cut":
            text, reason = text[:-2], "length"
        usage = {
            "prompt_tokens": len(prompt.split()), "completion_tokens": len(text.split()),
            "prompt_tokens_details": {"cached_tokens": 1},
        }  # fmt: skip
        choice: dict[str, Any] = {"index": 0, "finish_reason": reason}
        if "messages" in body:
            choice["message"] = {"role": "assistant", "content": text or None, "refusal": refusal}
        elif refusal:
            choice |= {"text": "", "finish_reason": "content_filter"}
        else:
            choice["text"] = text
        return {"id": "1", "object": "x", "choices": [choice], "usage": usage}

    def scores(self, body: dict[str, Any]) -> dict[str, Any]:
        tokens = body["prompt"]
        found: list[Any] = [None] + [
            {str(token): {"logprob": -token / 1000, "rank": 1}} for token in tokens[1:]
        ]
        choice = {"index": 0, "text": "x", "finish_reason": "length", "prompt_logprobs": found}
        usage = {"prompt_tokens": len(tokens), "completion_tokens": 1}
        return {"choices": [choice], "usage": usage}

    def likeliest(self, body: dict[str, Any]) -> dict[str, Any]:
        """The even tokens below 40 are the likeliest, always."""
        assert body["return_tokens_as_token_ids"] and body["logprobs"] == 20
        top = {f"token_id:{token}": -token / 1000 for token in range(0, 40, 2)}
        choice = {"index": 0, "text": "x", "finish_reason": "length",
                  "logprobs": {"top_logprobs": [top]}}  # fmt: skip
        usage = {"prompt_tokens": len(body["prompt"]), "completion_tokens": 1}
        return {"choices": [choice], "usage": usage}

    def echo(self, body: dict[str, Any]) -> dict[str, Any]:
        """A token is a character, or two of the same."""
        text, offsets = body["prompt"], [0]
        for at in range(1, len(text)):
            if text[at] != text[at - 1] or at - offsets[-1] == 2:
                offsets.append(at)
        values = [None, *(-ord(text[at]) / 1000 for at in offsets[1:])]
        choice = {"index": 0, "text": text + "x", "finish_reason": "length", "logprobs": {
            "token_logprobs": [*values, -1.0], "text_offset": [*offsets, len(text)]}}  # fmt: skip
        return {"choices": [choice], "usage": {"prompt_tokens": len(offsets)}}

    def reply(self, code: int, value: Any, headers: dict[str, str] | None = None) -> None:
        self.reply_bytes(code, json.dumps(value).encode(), headers)

    def reply_bytes(self, code: int, data: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, *given: Any) -> None:
        pass


@contextmanager
def fake_server(faults: Faults | None = None, **values: Any) -> Iterator[State]:
    state = State(faults or Faults(), **values)
    server = Server(("127.0.0.1", 0), type("Bound", (Handler,), {"state": state}))
    state.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()


def main(words: list[str]) -> None:
    print(f"serving {words[0]}", flush=True)
    options = dict(pairwise(words))
    if "--fail" in words:
        print(f"key {os.environ['VLLM_API_KEY']}: no memory", flush=True)
        sys.exit(3)
    state = State(Faults(), os.environ["VLLM_API_KEY"], options["--served-model-name"])
    address = (options["--host"], int(options["--port"]))
    Server(address, type("Bound", (Handler,), {"state": state})).serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
