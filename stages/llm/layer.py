"""The one door to language models: a stage brings requests and gets an answer for each, by id.

    with LanguageModel.of(context, Model(folder="models/warmup")) as model:
        answers = model.ask(requests, sampling)      # {id: Answer}
        scores = model.ask(with_continuations)       # no sampling: log-probabilities

Every answer is looked up in the store first; a model is opened only when one is missing, and its
answers are kept as they arrive. Equal requests are asked once. An answer that should be JSON and is
not gets one repair. Each id ends with exactly one answer, a value or a typed failure, and more
failures than `runtime.llm.max_failed` allows end the stage.
"""

from __future__ import annotations

import time
from array import array
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from schemas.errors import UserError
from stages.llm import structured
from stages.llm.answer import Answer, Status
from stages.llm.backends.open import open_backend
from stages.llm.backends.protocol import Backend
from stages.llm.counts import Counts
from stages.llm.identity import model_id, request_key
from stages.llm.model import Model
from stages.llm.order import new_shares, ordered, prompt_text, windows
from stages.llm.packaged import model_folder
from stages.llm.request import Request, Sampling
from stages.llm.store import KEPT, Entry, Store, store_folder
from stages.runtime.context import StageContext
from stages.runtime.llm import LlmChoice
from stages.runtime.progress import Meter, say

COMPLETE: frozenset[Status] = frozenset({"ok", "length"})
_FEWEST_TO_STOP = 20
"""Failures before a share of them is taken for the share of all."""


@dataclass
class LanguageModel:
    """A model for one stage: opened when first needed, closed at the end of the block."""

    stage: str
    model: Model
    settings: LlmChoice
    opener: Callable[[Model], Backend]
    store: Store
    id: str = ""
    _backend: Backend | None = field(default=None, repr=False)

    @classmethod
    def of(cls, context: StageContext, model: Model) -> LanguageModel:
        """The model as `runtime.llm` says for the stage of this context."""
        runtime = context.params.runtime
        settings = runtime.llm.of(context.layout.name)
        return cls.open(
            context.layout.name, model, settings,
            lambda model: open_backend(model, settings, runtime),
        )  # fmt: skip

    @classmethod
    def open(
        cls, stage: str, model: Model, settings: LlmChoice, opener: Callable[[Model], Backend]
    ) -> LanguageModel:
        """With a back end of one's own, which `opener` opens when it is needed."""
        if model.folder is not None:
            model = model.model_copy(update={"folder": str(model_folder(model.folder))})
        store = Store.open(store_folder(settings.store))
        try:
            name = model_id(model, store.file_digest)
        except BaseException:
            store.close()
            raise
        return cls(stage, model, settings, opener, store, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()

    def close(self) -> None:
        try:
            if self._backend is not None:
                self._backend.close()
                self._backend = None
        finally:
            self.store.close()

    def ask(
        self,
        requests: Iterable[Request],
        sampling: Sampling | None = None,
        *,
        complete: frozenset[Status] = COMPLETE,
        label: str = "",
    ) -> dict[str, Answer]:
        """An answer for each request, by its id; without sampling, scores of continuations.

        Answers whose status is not in `complete` are failures. `UserError` when they are more than
        `max_failed` of all: what came until then is kept.
        """
        answers: dict[str, Answer] = {}
        counts = Counts()
        meter = Meter(label or self.stage)
        started = time.monotonic()
        try:
            for window in windows(requests):
                ids = {request.id for request in window}
                if len(ids) < len(window) or ids & answers.keys():
                    raise ValueError(f"{self.stage}: two requests have the same id")
                if any((r.continuation is None) == (sampling is None) for r in window):
                    raise ValueError("sampling is for requests without a continuation, and only")
                structured.check_schemas(r.schema for r in window if r.schema is not None)
                call = _Call(self, sampling, complete, counts, meter, len(answers) + len(window))
                answers |= call.window(window)
        finally:
            counts.seconds = time.monotonic() - started
            counts.statuses.update(answer.status for answer in answers.values())
            counts.record(self.settings.prices)
        say(meter.line(len(answers), time.monotonic()))
        self._check(answers, complete, len(answers))
        return answers

    def backend(self) -> Backend:
        """The open back end."""
        if self._backend is None:
            self._backend = self.opener(self.model)
        return self._backend

    def _check(self, answers: dict[str, Answer], complete: frozenset[Status], total: int) -> None:
        """End the stage when too many requests failed."""
        failed = {key: answer for key, answer in answers.items() if answer.status not in complete}
        allowed = self.settings.max_failed
        if len(failed) <= allowed * total:
            return
        kinds = Counter(answer.status for answer in failed.values())
        first, answer = next(iter(failed.items()))
        told = ", ".join(f"{number} {status}" for status, number in kinds.most_common())
        raise UserError(
            f"{self.stage}: {len(failed)} of {total} requests to {self.model.label} failed "
            f"({told}); runtime.llm.max_failed allows a share of {allowed}. First: {first}: "
            f"{answer.status}: {answer.detail or 'no more is known'}",
            fix="mend the cause and run again (the answers that came are kept and not asked "
            "again), or raise runtime.llm.max_failed in conf/runtime/local.yaml and run "
            "`longline params compose`",
        )


@dataclass
class _Call:
    """One window of requests on its way through store, model and checks."""

    model: LanguageModel
    sampling: Sampling | None
    complete: frozenset[Status]
    counts: Counts
    meter: Meter
    total: int

    def window(self, requests: Sequence[Request]) -> dict[str, Answer]:
        self.counts.requests += len(requests)
        answers = self.raw(requests)
        faults: dict[str, structured.Fault] = {}
        repairs: dict[str, Request] = {}
        for request in requests:
            answer = answers[request.id]
            if request.schema is None or answer.status not in COMPLETE:
                continue
            found = structured.read(answer, request.schema)
            if isinstance(found, structured.Fault):
                faults[request.id] = found
                repairs[request.id] = structured.repair(request, answer, found)
            else:
                answers[request.id] = found
        if repairs:
            self.counts.repaired += len(repairs)
            self.total += len(repairs)
            say(f"{self.meter.label}: {len(repairs)} answers were not the JSON asked for")
        for key, second in self.raw(list(repairs.values()), repairing=True).items():
            schema = repairs[key].schema or ""
            answers[key] = structured.joined(answers[key], second, faults[key], schema)
        return answers

    def raw(self, requests: Sequence[Request], repairing: bool = False) -> dict[str, Answer]:
        """The model's own words, from the store or anew."""
        keys = {r.id: request_key(self.model.id, r, self.sampling) for r in requests}
        known = self.model.store.get(list(set(keys.values())))
        missing: dict[str, Request] = {}
        for request in requests:
            if keys[request.id] not in known:
                missing.setdefault(keys[request.id], request)
        self.counts.kept += len(requests) - len(missing)
        self.meter.keep(len(requests) - len(missing))
        if missing and self.model.settings.replay:
            first = next(iter(missing.values()))
            raise UserError(
                f"{self.model.stage}: replay, but the store has no answer to {len(missing)} of "
                f"{len(requests)} requests. First: {first.id}"
                + (" (its repair)" if repairing else ""),
                fix="set runtime.llm.replay to false, or merge the store that has them "
                "(longline llm merge)",
            )
        if missing:
            for key, answer in self.asked(missing, len(requests), repairing):
                known[key] = answer
        return {request.id: known[keys[request.id]] for request in requests}

    def asked(
        self, missing: dict[str, Request], of: int, repairing: bool
    ) -> Iterator[tuple[str, Answer]]:
        """Ask the model for what the store lacks, by key; keep each answer as it arrives."""
        backend = self.model.backend()
        encoded = backend.encode(list(missing.values()))
        tokens = None if encoded is None else dict(zip(missing, encoded, strict=True))
        too_long = {} if tokens is None else dict(self.too_long(backend.window, tokens))
        if len(too_long) > self.model.settings.max_failed * of and not repairing:
            named = {missing[key].id: answer for key, answer in too_long.items()}
            self.model._check(named, self.complete, of)
        yield from too_long.items()
        work = ordered(request for key, request in missing.items() if key not in too_long)
        if not work:
            return
        keys = {request.id: key for key, request in missing.items()}
        prompts = [prompt_text(r) if tokens is None else tokens[keys[r.id]] for r in work]
        shares = dict(zip((r.id for r in work), new_shares(prompts), strict=True))
        source = (
            backend.score(work) if self.sampling is None else backend.generate(work, self.sampling)
        )
        failed: dict[str, Answer] = {}
        with closing(_generator(source)) as arriving:
            for name, answer in arriving:
                share = shares.pop(name, None)
                if share is None:
                    raise RuntimeError(f"the back end answered {name} twice or unasked")
                self.counts.add(answer, share)
                self.meter.answer(
                    answer.n_prompt_tokens, answer.n_cached_tokens or 0, answer.n_tokens, self.total
                )
                yield keys[name], self.kept(keys[name], answer)
                if answer.status not in self.complete:
                    failed[name] = answer
                    if len(failed) >= _FEWEST_TO_STOP and not repairing:
                        self.model._check(failed, self.complete, self.total)
        if shares:
            raise RuntimeError(f"the back end left {len(shares)} requests: {next(iter(shares))}")

    def kept(self, key: str, answer: Answer) -> Answer:
        """The answer, in the store if it is worth keeping.

        Where another process was faster its answer counts, so that both go on with the same one.
        """
        if answer.status not in KEPT:
            return answer
        entry = Entry(key, self.model.id, self.model.settings.backend, int(time.time()), answer)
        if self.model.store.put([entry]):
            return answer
        return self.model.store.get([key]).get(key, answer)

    def too_long(
        self, window: int | None, tokens: dict[str, array[int]]
    ) -> Iterator[tuple[str, Answer]]:
        """The requests that do not fit the model's window, before any of them is sent."""
        room = 0 if self.sampling is None else self.sampling.max_new_tokens
        for key, prompt in tokens.items():
            if window is not None and len(prompt) + room > window:
                detail = f"{len(prompt)} tokens and {room} for the answer; the window is {window}"
                yield key, Answer("too_long", detail=detail)


def _generator(source: Iterator[tuple[str, Answer]]) -> Generator[tuple[str, Answer]]:
    """`source` as a generator, which can be closed."""
    yield from source
