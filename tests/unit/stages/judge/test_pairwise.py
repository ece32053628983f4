"""Pairs in both orders: a place that wins both times is a recorded fact and never a number."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.judge._pairwise import NEEDS, PairwiseJudge, requests, schedule, verdicts
from stages.judge._prompt import load_prompt
from stages.judge._verdict import Verdict
from stages.llm.answer import Answer
from stages.llm.request import Request
from tests.unit.stages.judge.cases import WRITING, case, prompt_of, replies

ASK = load_prompt("pairwise", NEEDS).ask
NAMES = st.lists(st.text("abcdef", min_size=1, max_size=3), unique=True, max_size=9)


def judge(**values: Any) -> PairwiseJudge:
    given: dict[str, Any] = {
        "kind": "pairwise_lm", "prompt": "pairwise", "criterion": "It is right.", "ties": True,
        "pairs_per_question": None,
    }  # fmt: skip
    return PairwiseJudge.model_validate({**WRITING, **given, **values})


def shown(request: Request) -> tuple[str, str]:
    """The two responses in the order in which they are shown."""
    parts = prompt_of(request).split('"""')
    return parts[1].strip(), parts[3].strip()


def decided(one: Any, reply: Any, **values: Any) -> dict[str, Verdict]:
    made = judge(**values)
    answers = replies(requests(made, ASK, one), lambda r: reply(*shown(r)))
    return {verdict.candidate_id: verdict for verdict in verdicts(made, one, answers)}


def longest(first: str, second: str) -> dict[str, Any]:
    better = "tie" if len(first) == len(second) else "1" if len(first) > len(second) else "2"
    return {"explanation": f"{first}>{second}", "better": better}


@given(NAMES, st.integers(0, 99))
def test_all_pairs_once(names: list[str], seed: int) -> None:
    found = schedule(names, None, seed)
    assert sorted(tuple(sorted(pair)) for pair in found) == sorted(combinations(sorted(names), 2))
    assert schedule(list(reversed(names)), None, seed) == found


@given(NAMES.filter(lambda names: len(names) > 1), st.integers(1, 40), st.integers(0, 99))
def test_a_bounded_schedule_lets_all_take_their_turns(
    names: list[str], limit: int, seed: int
) -> None:
    found = schedule(names, limit, seed)
    assert len(found) == min(limit, len(names) * (len(names) - 1) // 2)
    assert found == schedule(names, None, seed)[:limit]
    turns = Counter(name for pair in found for name in pair)
    spread = max(turns[name] for name in names) - min(turns[name] for name in names)
    assert spread <= 1 + len(names) % 2


def test_the_share_of_wins() -> None:
    found = decided(case("xxx", "x", "xx", "yy"), longest)
    assert {name: verdict.value for name, verdict in found.items()} == {
        "a": 1.0, "b": 0.0, "c": 0.5, "d": 0.5,
    }  # fmt: skip
    assert {verdict.status for verdict in found.values()} == {"ok"}
    assert {verdict.agreement for verdict in found.values()} == {1.0}
    parts = {part.name: part for part in found["a"].parts}
    assert set(parts) == {"b", "c", "d"}
    assert set(parts["b"].reason.split("\n")) == {"xxx>x", "x>xxx"}
    # Each of the three comparisons has one order that begins with the candidate.
    assert {(v.n_prompt_tokens, v.n_tokens) for v in found.values()} == {(30, 6)}


def test_a_judge_that_prefers_a_place_gives_no_number() -> None:
    found = decided(case("xxx", "x"), lambda *_: {"explanation": "", "better": "1"})
    for verdict in found.values():
        assert (verdict.value, verdict.status) == (None, "failed:order_disagreement")
        assert verdict.agreement == 0.0
        assert [(p.value, p.status) for p in verdict.parts] == [(None, "order_disagreement")]


def test_a_tie_in_one_order_alone_is_a_disagreement() -> None:
    found = decided(
        case("xxx", "x"),
        lambda first, _: {"explanation": "", "better": "1" if first == "xxx" else "tie"},
    )
    assert {v.status for v in found.values()} == {"failed:order_disagreement"}


def test_what_failed_or_disagreed_does_not_count_and_the_rest_does() -> None:
    def reply(first: str, second: str) -> Any:
        if {first, second} == {"xxx", "x"}:
            return Answer("timeout", detail="300 s")
        if {first, second} == {"xxx", "xx"}:
            return {"explanation": "", "better": "2"}
        return longest(first, second)

    found = decided(case("xxx", "x", "xx"), reply)
    assert (found["a"].value, found["a"].status) == (None, "failed:order_disagreement")
    assert (found["b"].value, found["b"].agreement) == (0.0, 1.0)
    assert (found["c"].value, found["c"].agreement) == (1.0, 0.5)
    assert {p.name: (p.value, p.status) for p in found["a"].parts} == {
        "b": (None, "failed:timeout"), "c": (None, "order_disagreement"),
    }  # fmt: skip


def test_a_single_candidate_and_one_whose_requests_all_failed() -> None:
    assert decided(case("xxx"), longest)["a"].status == "failed:no_opponent"
    found = decided(case("xxx", "x"), lambda *_: Answer("http", detail="500"))
    assert [(v.value, v.status, v.agreement) for v in found.values()] == [
        (None, "failed:http", None)
    ] * 2


def test_ill_formed_ones_score_0_and_are_not_compared() -> None:
    found = decided(case("xxx", "x", "xxxxx", ill_formed=[2]), longest)
    assert [(v.value, v.status) for v in found.values()] == [
        (1.0, "ok"), (0.0, "ok"), (0.0, "ill_formed:truncated"),
    ]  # fmt: skip


def test_the_same_words_are_level_without_asking() -> None:
    made = judge()
    one = case("same", "same", "x")
    asked = requests(made, ASK, one)
    assert len(asked) == 4
    found = verdicts(made, one, replies(asked, lambda r: longest(*shown(r))))
    assert [(v.value, v.agreement) for v in found] == [(0.75, 1.0), (0.75, 1.0), (0.0, 1.0)]


def test_the_same_words_say_nothing_about_the_judge() -> None:
    found = decided(case("same", "same"), longest)
    assert [(v.value, v.status, v.agreement) for v in found.values()] == [(0.5, "ok", None)] * 2
    first = decided(
        case("same", "same", "x"), lambda *_: {"explanation": "the same words", "better": "1"}
    )
    assert [(v.value, v.agreement) for v in first.values()] == [(0.5, 0.0), (0.5, 0.0), (None, 0.0)]


@given(
    st.lists(st.sampled_from(["x", "xx", "xxx", "yy"]), min_size=1, max_size=6),
    st.none() | st.integers(1, 8),
    st.integers(0, 9),
    st.randoms(use_true_random=False),
)
def test_a_value_or_a_reason_and_never_both(
    texts: list[str], limit: int | None, seed: int, random: Any
) -> None:
    """Whatever the judge says, and whatever fails."""
    made = judge(pairs_per_question=limit, seed=seed)
    one = case(*texts)

    def reply(_: Request) -> Any:
        if random.random() < 0.3:
            return Answer("timeout")
        return {"explanation": "", "better": random.choice(["1", "2", "tie"])}

    answers = replies(requests(made, ASK, one), reply)
    found = verdicts(made, one, answers)
    assert [v.candidate_id for v in found] == [c.candidate_id for c in one.candidates]
    total = 0.0
    for verdict in found:
        assert (verdict.value is None) == verdict.status.startswith("failed:")
        scored = [part.value for part in verdict.parts if part.value is not None]
        assert (verdict.value is None) == (not scored)
        total += sum(scored)
    # Every consistent comparison gives one point in all, however it is split.
    assert total == sum(p.value is not None for v in found for p in v.parts) / 2


@pytest.mark.parametrize(("ties", "choices"), [(True, '"1", "2", "tie"'), (False, '"1", "2"')])
def test_the_choices_are_said_and_held_to(ties: bool, choices: str) -> None:
    asked = requests(judge(ties=ties), ASK, case("x", "xx"))
    assert f"one of\n{choices}}}" in prompt_of(asked[0])
    assert f'"enum": [{choices}]' in (asked[0].schema or "")
