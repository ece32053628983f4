"""The layer: in = out + failed(reason) by id, whatever the back end does."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import UserError
from stages.llm.answer import Answer, Status
from stages.llm.layer import LanguageModel
from stages.llm.model import Model
from stages.llm.request import Message, Request, Sampling
from stages.llm.store import KEPT
from stages.runtime import usage
from tests.unit.stages.corpus.conftest import RUNTIME

SAMPLING = Sampling(temperature=1.0, top_p=1.0, max_new_tokens=8)
SCHEMA = json.dumps({"type": "object", "required": ["score"],
                     "properties": {"score": {"type": "integer"}}})  # fmt: skip
MODEL = Model(name="model")


@dataclass
class Scripted:
    """A back end that answers by a rule, in the reverse order, and remembers what it was asked."""

    rule: Callable[[Request], Answer]
    window: int | None = None
    batches: list[list[Request]] = field(default_factory=list)
    closed: bool = False

    @property
    def asked(self) -> list[Request]:
        return [request for batch in self.batches for request in batch]

    def encode(self, requests: Sequence[Request]) -> list[array[int]] | None:
        words = (str(request.prompt).split() for request in requests)
        return [array("I", (crc32(word.encode()) for word in some)) for some in words]

    def generate(
        self, requests: Sequence[Request], sampling: Sampling
    ) -> Iterator[tuple[str, Answer]]:
        self.batches.append(list(requests))
        for request in reversed(requests):
            yield request.id, self.rule(request)

    def score(self, requests: Sequence[Request]) -> Iterator[tuple[str, Answer]]:
        return self.generate(requests, SAMPLING)

    def close(self) -> None:
        self.closed = True


def echo(request: Request) -> Answer:
    return Answer("ok", f"{request.prompt} {request.seed}", n_prompt_tokens=10, n_tokens=2)


def model(folder: Path, backend: Scripted, **changes: Any) -> LanguageModel:
    chosen = RUNTIME.llm.of("judge").model_copy(update={"store": str(folder), **changes})
    return LanguageModel.open("judge", MODEL, chosen, lambda model: backend)


def ask(
    folder: Path, backend: Scripted, requests: Sequence[Request],
    sampling: Sampling | None = SAMPLING, **changes: Any,
) -> dict[str, Answer]:  # fmt: skip
    with model(folder, backend, **changes) as asked:
        return asked.ask(iter(requests), sampling)


def numbered(number: int, **values: Any) -> list[Request]:
    return [Request(f"r{i}", f"prompt {i}", **values) for i in range(number)]


def test_answers_come_by_id_and_are_asked_once(tmp_path: Path) -> None:
    backend = Scripted(echo)
    requests = numbered(5)
    first = ask(tmp_path, backend, requests)
    assert {key: answer.text for key, answer in first.items()} == {
        f"r{i}": f"prompt {i} 0" for i in range(5)
    }
    assert backend.closed
    other = Scripted(echo)
    again = ask(tmp_path, other, [*requests, Request("new", "new")])
    assert {key: again[key] for key in first} == first
    assert [request.id for request in other.asked] == ["new"]


def test_a_model_is_not_opened_when_nothing_is_missing(tmp_path: Path) -> None:
    ask(tmp_path, Scripted(echo), numbered(3))

    def never(model: Model) -> Any:
        raise AssertionError("opened")

    chosen = RUNTIME.llm.of("judge").model_copy(update={"store": str(tmp_path)})
    with LanguageModel.open("judge", MODEL, chosen, never) as asked:
        assert len(asked.ask(numbered(3), SAMPLING)) == 3


def test_equal_requests_are_asked_once(tmp_path: Path) -> None:
    backend = Scripted(echo)
    requests = [Request(f"r{i}", "same", seed=i % 2) for i in range(10)]
    answers = ask(tmp_path, backend, requests)
    assert len(backend.asked) == 2
    assert {answers[r.id].text for r in requests if r.seed == 1} == {"same 1"}


def test_two_requests_with_one_id_are_a_defect(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the same id"):
        ask(tmp_path, Scripted(echo), [Request("a", "1"), Request("a", "2")])


@pytest.mark.parametrize("fault", ["twice", "unasked", "lost"])
def test_a_back_end_that_loses_count_is_a_defect(tmp_path: Path, fault: str) -> None:
    class Wrong(Scripted):
        def generate(self, requests: Any, sampling: Any) -> Iterator[tuple[str, Answer]]:
            given = list(super().generate(requests, sampling))
            extra = {"twice": given[:1], "unasked": [("other", Answer("ok", "x"))], "lost": []}
            yield from given[: -1 if fault == "lost" else None] + extra[fault]

    with pytest.raises(RuntimeError, match="the back end"):
        ask(tmp_path, Wrong(echo), numbered(3))


STATUSES = sorted(get_args(Status))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STATUSES), st.integers(0, 3)), max_size=20))
def test_in_is_out_plus_failed_by_id(
    tmp_path_factory: pytest.TempPathFactory, script: list[tuple[Status, int]]
) -> None:
    """Whatever the statuses: each id ends with exactly one answer, a value or a reason."""
    folder = tmp_path_factory.mktemp("store")
    requests = [
        Request(f"r{i}", f"{status} {seed}", seed=seed) for i, (status, seed) in enumerate(script)
    ]

    def rule(request: Request) -> Answer:
        status: Any = str(request.prompt).split()[0]
        return Answer(status, "value" if status in ("ok", "length") else None, detail="why")

    backend = Scripted(rule)
    answers = ask(folder, backend, requests, max_failed=1.0)
    assert answers.keys() == {request.id for request in requests}
    for request, (status, _) in zip(requests, script, strict=True):
        assert answers[request.id].status == status
        assert (answers[request.id].text is not None) == (status in ("ok", "length"))
    # Asked again, only what may end better is.
    second = Scripted(rule)
    assert ask(folder, second, requests, max_failed=1.0) == answers
    assert Counter(str(r.prompt).split()[0] in KEPT for r in second.asked)[True] == 0
    assert {r.prompt for r in second.asked} == {
        r.prompt for r, (status, _) in zip(requests, script, strict=True) if status not in KEPT
    }


def test_too_many_failures_end_the_stage_and_lose_nothing(tmp_path: Path) -> None:
    def rule(request: Request) -> Answer:
        failed = request.id in ("r0", "r1")
        return Answer("timeout", detail="no answer in time") if failed else echo(request)

    with pytest.raises(UserError) as caught:
        ask(tmp_path, Scripted(rule), numbered(20))
    assert "2 of 20 requests to model failed (2 timeout)" in str(caught.value)
    assert "max_failed" in (caught.value.fix or "")
    backend = Scripted(echo)
    assert len(ask(tmp_path, backend, numbered(20))) == 20
    assert {request.id for request in backend.asked} == {"r0", "r1"}
    # Below the bound the failures are there, typed.
    assert ask(tmp_path / "b", Scripted(rule), numbered(40))["r0"].status == "timeout"


def test_hopeless_work_stops_early(tmp_path: Path) -> None:
    def rule(request: Request) -> Answer:
        answered.append(request.id)
        return Answer("http", detail="HTTP 500")

    answered: list[str] = []
    with pytest.raises(UserError, match="http"):
        ask(tmp_path, Scripted(rule), numbered(300), max_failed=0.1)
    assert len(answered) == 31


def test_a_prompt_that_is_too_long_is_named_before_any_work(tmp_path: Path) -> None:
    backend = Scripted(echo, window=12)
    long = Request("row-7", "a b c d e")
    with pytest.raises(UserError, match="First: row-7: too_long: 5 tokens and 8 for the answer"):
        ask(tmp_path, backend, [*numbered(3), long])
    assert backend.asked == []
    answers = ask(tmp_path, backend, [*numbered(3), long], max_failed=0.5)
    assert answers["row-7"].status == "too_long" and len(backend.asked) == 3


def test_replay_never_opens_a_model_and_names_a_miss(tmp_path: Path) -> None:
    ask(tmp_path, Scripted(echo), numbered(3))
    backend = Scripted(echo)
    assert len(ask(tmp_path, backend, numbered(3), replay=True)) == 3
    with pytest.raises(UserError, match=r"no answer to 2 of 5 requests. First: r3"):
        ask(tmp_path, backend, numbered(5), replay=True)
    assert backend.asked == []


def test_groups_come_together_with_shared_beginnings_side_by_side(tmp_path: Path) -> None:
    backend = Scripted(echo)
    asked = [Request(f"{q}{d}", f"document {d}: {q}", group=d) for q in "cab" for d in "yx"]
    ask(tmp_path, backend, asked)
    assert [request.id for request in backend.asked] == ["ay", "by", "cy", "ax", "bx", "cx"]


# -- JSON --------------------------------------------------------------------------------------


def json_rule(first: Mapping[str, str], second: str) -> Callable[[Request], Answer]:
    def rule(request: Request) -> Answer:
        text = second if "not what was asked" in str(request.prompt) else first[request.id]
        return Answer("ok", text, n_prompt_tokens=10, n_tokens=3)

    return rule


@pytest.mark.parametrize("turns", [False, True])
def test_json_is_checked_and_repaired_once(tmp_path: Path, turns: bool) -> None:
    texts = {
        "good": '{"score": 1}',
        "fenced": '```json\n{"score": 2}\n```',
        "broken": '{"score": ',
        "wrong": '{"score": "high"}',
    }
    prompts = {key: (Message("user", key),) if turns else key for key in texts}
    requests = [Request(key, prompts[key], schema=SCHEMA) for key in texts]
    backend = Scripted(json_rule(texts, '{"score": 9}'))
    answers = ask(tmp_path, backend, requests)
    assert {k: json.loads(a.text or "")["score"] for k, a in answers.items()} == {
        "good": 1, "fenced": 2, "broken": 9, "wrong": 9
    }  # fmt: skip
    repairs = backend.batches[1]
    assert sorted(request.id for request in repairs) == ["broken", "wrong"]
    wrong = next(request for request in repairs if request.id == "wrong")
    assert "$.score: 'high' is not of type 'integer'" in str(wrong.prompt)
    assert '{"score": "high"}' in str(wrong.prompt)
    assert (answers["wrong"].n_tokens, answers["wrong"].attempts) == (6, 2)
    # The repair is kept like any answer.
    second = Scripted(json_rule(texts, "never asked"))
    assert ask(tmp_path, second, requests) == answers
    assert second.asked == []


def test_what_stays_broken_is_a_failure_without_a_value(tmp_path: Path) -> None:
    texts = {"broken": "no JSON", "wrong": "[]", "nan": '{"score": NaN}'}
    requests = [Request(key, key, schema=SCHEMA) for key in texts]
    backend = Scripted(json_rule(texts, '{"score": 1.5}'))
    answers = ask(tmp_path, backend, requests, max_failed=1.0)
    assert {answer.status for answer in answers.values()} == {"schema_mismatch"}
    assert all(answer.text is None and "after a repair" in answer.detail
               for answer in answers.values())  # fmt: skip


def test_json_cut_at_the_limit_is_no_value(tmp_path: Path) -> None:
    backend = Scripted(lambda request: Answer("length", '{"score": 1', n_tokens=8))
    request = Request("cut", "prompt", schema=SCHEMA)
    answer = ask(tmp_path, backend, [request], max_failed=1.0)["cut"]
    assert (answer.status, answer.text) == ("broken_json", None)
    assert "cut at the limit of 8 tokens" in answer.detail


def test_a_repair_that_fails_keeps_the_first_reason(tmp_path: Path) -> None:
    def rule(request: Request) -> Answer:
        if "not what was asked" in str(request.prompt):
            return Answer("timeout", detail="no answer in time")
        return Answer("ok", "no JSON")

    request = Request("a", "prompt", schema=SCHEMA)
    answer = ask(tmp_path, Scripted(rule), [request], max_failed=1.0)["a"]
    assert answer.status == "broken_json" and "the repair ended as timeout" in answer.detail


@pytest.mark.parametrize(
    ("schema", "told"),
    [("{", "not a JSON schema"), ('{"type": "integr"}', "not a JSON schema"),
     ('{"$ref": "http://127.0.0.1:9/x"}', "refers to what is not in it")],
)  # fmt: skip
def test_a_schema_that_is_none_is_told(tmp_path: Path, schema: str, told: str) -> None:
    backend = Scripted(lambda request: Answer("ok", "{}"))
    with pytest.raises(UserError, match=told):
        ask(tmp_path, backend, [Request("a", "prompt", schema=schema)])


# -- what it took ------------------------------------------------------------------------------


def test_what_it_took_goes_to_the_run_log(tmp_path: Path) -> None:
    usage.take()
    backend = Scripted(
        lambda r: Answer("ok", "x", n_prompt_tokens=100, n_cached_tokens=40, n_tokens=10)
    )
    prices = RUNTIME.llm.prices.model_copy(update={"prompt": 1.0, "cached": 0.5, "completion": 2.0})
    requests = [*numbered(4), Request("same", "prompt 0")]
    ask(tmp_path, backend, requests, prices=prices)
    taken = usage.take()
    assert taken["tokens"] == {"prompt": 400, "completion": 40}
    assert taken["cost"] == pytest.approx((240 * 1.0 + 160 * 0.5 + 40 * 2.0) / 1e6)
    llm = taken["llm"]
    assert (llm["requests"], llm["asked"], llm["kept"], llm["repaired"]) == (5, 4, 1, 0)
    assert (llm["cached_tokens"], llm["computed_tokens"]) == (160, 240)
    # Each prompt of two words shares the first with the one before it.
    assert llm["unique_tokens"] == 100 + 3 * 50
    assert llm["statuses"] == {"ok": 5}
    ask(tmp_path, backend, requests)
    again = usage.take()
    assert (again["llm"]["asked"], again["cost"]) == (0, 0.0)
    ask(tmp_path, backend, [Request("new", "new")])
    assert "cost" not in usage.take()
