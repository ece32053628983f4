"""Any endpoint that speaks OpenAI's protocol, vLLM's own server first.

Requests go out as many at once as the server keeps up with, each with several attempts within its
deadline; an answer is handed on when it arrives. A server that is not there, wants a key or does
not know the model is one error before any work. The key comes from the environment, goes to the
server alone, and is cut out of whatever is shown or kept.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
import time
from array import array
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from schemas.errors import UserError
from stages.llm.answer import Answer, scored
from stages.llm.backends import wire
from stages.llm.backends.choices import by_prompt, counting
from stages.llm.backends.concurrency import Limiter
from stages.llm.backends.encoding import Encoder, template_arguments
from stages.llm.backends.faults import Fault, Malformed, back_off, classify, masked
from stages.llm.backends.serve import Served, start
from stages.llm.model import Model
from stages.llm.request import Request, Sampling
from stages.runtime.llm import ServerSettings

_GONE = 8
"""Requests in a row whose every attempt found no connection: the server is not coming back."""

Part = Sequence[Request]
"""Requests that one message asks."""
Send = Callable[[Part], Awaitable[list[Answer]]]


def open_server(model: Model, settings: ServerSettings) -> ServerBackend:
    """Reach the server, or start one, and check that it knows the model."""
    if model.thinking is not None and settings.api == "openai":
        raise UserError(
            f"{model.label}: thinking is {model.thinking}, but only vLLM's own API can tell it to "
            "the chat template",
            fix="set runtime.llm.server.api to vllm, or the model's thinking to null",
        )
    served = start(model, settings.serve) if settings.url is None else None
    backend = None
    try:
        backend = ServerBackend(model, settings, served)
        backend.check()
    except BaseException:
        if backend is not None:
            backend.close()
        elif served is not None:
            served.stop()
        raise
    return backend


class ServerBackend:
    """A connection to a server; owns the thread of its event loop, and the server if started."""

    def __init__(self, model: Model, settings: ServerSettings, served: Served | None) -> None:
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        self.model = model
        self.settings = settings
        self.served = served
        self.url = (served.url if served else settings.url or "").rstrip("/")
        self.secret = served.key if served else os.environ.get(settings.key_variable, "")
        self.name = settings.model or (served.model if served else model.label)
        self.window: int | None = None
        told = template_arguments(model.thinking)
        self._told = {"chat_template_kwargs": told} if told else {}
        self._in_a_row = 0
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

        async def make() -> AsyncOpenAI:
            # A proxy of the environment knows nothing of this machine's own ports.
            here = urlsplit(self.url).hostname in ("127.0.0.1", "localhost", "::1")
            return AsyncOpenAI(
                api_key=self.secret or "none",
                base_url=self.url,
                max_retries=0,
                timeout=settings.timeout,
                http_client=DefaultAsyncHttpxClient(trust_env=not here),
            )

        self._client = self._run(make())

    def check(self) -> None:
        """Ask the server for its models, before any work."""
        import openai

        try:
            listed = self._run(self._client.get("/models", cast_to=object))
        except openai.NotFoundError:
            return  # some servers do not list their models
        except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
            known = "was refused" if self.secret else "is not set"
            raise UserError(
                f"the server at {self.url} wants an API key, and "
                f"{self.settings.key_variable} {known} (HTTP {error.status_code})",
                fix=f"export {self.settings.key_variable}=...",
            ) from None
        except (openai.APIError, ValueError) as error:
            cause = masked(str(error.__cause__ or error), self.secret)
            raise UserError(
                f"no server answers at {self.url}: {cause}",
                fix="start it (such as: vllm serve MODEL), correct runtime.llm.server.url, or set "
                "the url to null to have the stage start one",
            ) from None
        cards = {
            card["id"]: card
            for card in (listed.get("data") if isinstance(listed, dict) else None) or ()
            if isinstance(card, dict) and isinstance(card.get("id"), str)
        }
        if cards and self.name not in cards:
            raise UserError(
                f"the server at {self.url} has no model '{self.name}'", allowed=cards,
                fix="set runtime.llm.server.model to the name that the server has for "
                f"{self.model.label}",
            )  # fmt: skip
        window = cards.get(self.name, {}).get("max_model_len")
        self.window = window if isinstance(window, int) else None

    def encode(self, requests: Sequence[Request]) -> list[array[int]] | None:
        return None if self._encoder is None else self._encoder.encode(requests)

    def generate(
        self, requests: Sequence[Request], sampling: Sampling
    ) -> Iterator[tuple[str, Answer]]:
        async def send(part: Part) -> list[Answer]:
            path, body = wire.generation(
                part[0], sampling, self.name, self.settings.api, self.settings.endpoint
            )
            if "messages" in body:
                body |= self._told
            return [wire.generated(await self._post(path, body))]

        yield from self._stream([[request] for request in requests], send)

    def score(self, requests: Sequence[Request]) -> Iterator[tuple[str, Answer]]:
        parts: Sequence[Part] = [[request] for request in requests]
        if self.settings.api == "openai":
            yield from self._stream(parts, self._score_echo)
            return
        if self._encoder is not None:
            parts = by_prompt(requests, self._encoder)
        yield from self._stream(parts, self._score_tokens)

    def close(self) -> None:
        """Close the connection, and stop the server if the stage had started it."""
        try:
            self._run(self._client.close())
            self._loop.call_soon_threadsafe(self._loop.stop)
        finally:
            if self.served is not None:
                self.served.stop()

    # -- one request -------------------------------------------------------------------------

    async def _score_tokens(self, part: Part) -> list[Answer]:
        """Words of one token come from the likeliest after the prompt, which the server's cache
        serves; what is not among them, and what is longer, from `prompt_logprobs`."""
        if self._encoder is None:
            prompt, rest = await self._remote_tokens(part[0])
            rests = [rest]
        else:
            prompt = self._encoder.prompt(part[0])
            rests = [self._encoder.continuation(request) for request in part]
        if any(len(rest) != 1 for rest in rests):
            return [await self._score_whole(prompt, rest) for rest in rests]
        path, body = wire.choosing(prompt, self.name)
        found, counts = wire.likeliest(await self._post(path, body))
        values = [found.get(token) for (token,) in rests]
        answers = [
            scored([value]) if value is not None else await self._score_whole(prompt, rest)
            for value, rest in zip(values, rests, strict=True)
        ]
        return [counting(answers[0], **counts), *answers[1:]]

    async def _score_whole(self, prompt: list[int], rest: list[int]) -> Answer:
        tokens = [*prompt, *rest]
        path, body = wire.scoring(tokens, self.name)
        return wire.scored(await self._post(path, body), tokens, len(rest))

    async def _score_echo(self, part: Part) -> list[Answer]:
        (request,) = part
        prompt = request.prompt
        if not isinstance(prompt, str):
            if self._encoder is None:
                raise UserError(
                    f"scoring turns of a chat needs the chat template of {self.model.label}",
                    fix="give the model as a folder, or use a server with "
                    "runtime.llm.server.api=vllm",
                )
            prompt = self._encoder.render(prompt)
        rest = request.continuation or ""
        path, body = wire.echoing(prompt, rest, self.name)
        return [wire.echoed(await self._post(path, body), prompt, rest)]

    async def _post(self, path: str, body: wire.Payload) -> Any:
        return await self._client.post(path, body=body, cast_to=object)

    async def _attempts(self, part: Part, send: Send, limiter: Limiter) -> list[Answer]:
        """Send until there are answers, no hope, or no time."""
        started = time.monotonic()
        end = started + self.settings.deadline
        attempt = 0
        while True:
            attempt += 1
            sent = time.monotonic()
            fault: Fault
            try:
                async with asyncio.timeout(min(self.settings.timeout, end - sent)):
                    answers = await send(part)
                limiter.succeeded()
                self._in_a_row = 0
                taken = time.monotonic() - started
                return [replace(answer, seconds=taken, attempts=attempt) for answer in answers]
            except Exception as error:
                fault = classify(error, self.url, self.settings.key_variable, self.secret)
            if fault.busy:
                limiter.overloaded(sent)
            wait = back_off(attempt) if fault.wait is None else fault.wait
            late = time.monotonic() + wait >= end
            if not fault.again or late or attempt == self.settings.attempts:
                break
            await asyncio.sleep(wait)
        self._count_gone(fault)
        lost = Answer(
            fault.status, detail=fault.detail, seconds=time.monotonic() - started, attempts=attempt
        )
        return [lost] * len(part)

    def _count_gone(self, fault: Fault) -> None:
        self._in_a_row = self._in_a_row + 1 if fault.status == "connection" else 0
        if self._in_a_row >= _GONE:
            raise UserError(
                f"the server at {self.url} has gone: {_GONE} requests in a row found no "
                f"connection ({fault.detail})",
                fix="bring it back and run again: every answer that came is kept",
            )

    # -- all requests ------------------------------------------------------------------------

    def _stream(self, parts: Sequence[Part], send: Send) -> Iterator[tuple[str, Answer]]:
        """Answers as they arrive. When the caller stops early, what is under way is cancelled."""
        arrived: queue.SimpleQueue[tuple[str, Answer] | BaseException | None] = queue.SimpleQueue()

        async def one(part: Part, limiter: Limiter) -> None:
            try:
                answers = await self._attempts(part, send, limiter)
                for request, answer in zip(part, answers, strict=True):
                    arrived.put((request.id, answer))
            finally:
                await limiter.release()

        async def every() -> None:
            limiter = Limiter(self.settings.max_concurrency)
            try:
                async with asyncio.TaskGroup() as group:
                    for part in parts:
                        await limiter.acquire()
                        group.create_task(one(part, limiter))
            except BaseExceptionGroup as errors:
                arrived.put(errors.exceptions[0])
            except BaseException as error:
                arrived.put(error)
                raise
            else:
                arrived.put(None)

        work = asyncio.run_coroutine_threadsafe(every(), self._loop)
        try:
            while (item := arrived.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            work.cancel()

    def _run(self, work: Any) -> Any:
        """Run a coroutine in the event loop's thread and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    # -- tokens ------------------------------------------------------------------------------

    @cached_property
    def _encoder(self) -> Encoder | None:
        """The model's tokenizer where its folder is here, else None."""
        if self.model.folder is None:
            return None
        from stages.llm.tokenizer import load_tokenizer

        return Encoder(load_tokenizer(self.model.folder), self.model.thinking)

    async def _remote_tokens(self, request: Request) -> tuple[list[int], list[int]]:
        """vLLM's own tokenizer, beside its OpenAI endpoints."""
        where = self.url.removesuffix("/v1") + "/tokenize"

        async def tokens(**asked: Any) -> list[int]:
            response = await self._post(where, {"model": self.name, **asked})
            found = response.get("tokens") if isinstance(response, dict) else None
            if not isinstance(found, list):
                raise Malformed("no tokens from /tokenize")
            return found

        plain = {"add_special_tokens": False}
        if isinstance(request.prompt, str):
            prompt = await tokens(prompt=request.prompt, **plain)
        else:
            prompt = await tokens(
                messages=wire.messages(request), add_generation_prompt=True, **self._told
            )
        return prompt, await tokens(prompt=request.continuation or "", **plain)
