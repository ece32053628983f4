"""ZYN: p(yes) against p(no), a mean over checks, and no number for a failure."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from stages.judge._prompt import load_prompt
from stages.judge._yes_no import NEEDS, YesNoJudge, probability, requests, verdicts
from stages.llm.answer import Answer
from tests.unit.stages.judge.cases import MODEL, case, prompt_of, replies

ASK = load_prompt("yes_no", NEEDS).ask
LOGPROBS = st.floats(-1e4, 0.0)


def judge(**values: Any) -> YesNoJudge:
    given: dict[str, Any] = {
        "kind": "yes_no", "model": MODEL, "prompt": "yes_no", "reads": "content",
        "checks": {
            "right": {"ask": "Is it right?", "wanted": True},
            "wrong": {"ask": "Is it wrong?", "wanted": False},
        },
        "yes_word": "Yes", "no_word": "No", "floor": 0.0,
    }  # fmt: skip
    return YesNoJudge.model_validate({**given, **values})


def logprob(value: float) -> Answer:
    return Answer("ok", logprobs=(math.log(value),), n_prompt_tokens=7)


@given(LOGPROBS, LOGPROBS)
def test_the_probability_is_that_of_the_formula(yes: float, no: float) -> None:
    value = probability(yes, no)
    assert value is not None and 0.0 <= value <= 1.0
    other = probability(no, yes)
    assert other is not None and value + other == pytest.approx(1.0)
    if min(yes, no) > -500:  # where the formula itself can be computed
        direct = math.exp(yes) / (math.exp(yes) + math.exp(no))
        assert value == pytest.approx(direct, rel=1e-9)


@pytest.mark.parametrize(
    ("yes", "no", "value"),
    [(0.0, -math.inf, 1.0), (-math.inf, 0.0, 0.0), (-math.inf, -math.inf, None), (-9, -9, 0.5)],
)
def test_the_probability_at_the_ends(yes: float, no: float, value: float | None) -> None:
    assert probability(yes, no) == value


def test_two_scores_a_check_and_the_mean_over_checks() -> None:
    made = judge()
    one = case("good", "cut", ill_formed=[1])
    asked = requests(made, ASK, one)
    assert [(r.continuation, r.schema) for r in asked] == [("Yes", None), ("No", None)] * 2
    assert prompt_of(asked[0]) == prompt_of(asked[1])
    assert prompt_of(asked[2]).endswith("Is it wrong? Answer with Yes or No.\n")
    table = {("right", "Yes"): 0.6, ("right", "No"): 0.2,
             ("wrong", "Yes"): 0.1, ("wrong", "No"): 0.3}  # fmt: skip

    def reply(request: Any) -> Answer:
        check = "right" if "right?" in prompt_of(request) else "wrong"
        return logprob(table[check, request.continuation])

    good, cut = verdicts(made, one, replies(asked, reply))
    # p(yes) = .6 / .8 speaks for it, and p(no) = .3 / .4 as well.
    assert good.value == pytest.approx(0.75)
    assert [part.value for part in good.parts] == pytest.approx([0.75, 0.75])
    assert (good.n_prompt_tokens, good.n_tokens) == (28, 0)
    assert (cut.value, cut.status) == (0.0, "ill_formed:truncated")


def test_words_of_several_tokens_count_whole() -> None:
    made = judge(checks={"right": {"ask": "Is it right?", "wanted": True}})
    one = case("good")
    tokens = {"Yes": (-1.0, -2.0), "No": (-0.5, -1.5)}
    (found,) = verdicts(made, one, replies(
        requests(made, ASK, one), lambda r: Answer("ok", logprobs=tokens[r.continuation or ""])
    ))  # fmt: skip
    assert found.value == pytest.approx(1 / (1 + math.e))


@pytest.mark.parametrize("status", ["nan", "timeout", "too_long"])
def test_a_failed_score_fails_the_verdict(status: Any) -> None:
    made = judge()
    one = case("good")
    (found,) = verdicts(made, one, replies(
        requests(made, ASK, one),
        lambda r: Answer(status, detail="why") if r.continuation == "No" else logprob(0.9),
    ))  # fmt: skip
    assert (found.value, found.status) == (None, f"failed:{status}")
    assert {(p.value, p.reason) for p in found.parts} == {(None, "why")}


@pytest.mark.parametrize(
    ("floor", "value", "status"),
    [(0.0, 0.75, "ok"), (0.08, 0.75, "ok"), (0.1, None, "failed:off_words")],
)
def test_a_model_that_says_neither(floor: float, value: float | None, status: str) -> None:
    """The chance that the two words have together is recorded, and may be bounded."""
    made = judge(checks={"right": {"ask": "Is it right?", "wanted": True}}, floor=floor)
    one = case("good")
    chances = {"Yes": 0.0675, "No": 0.0225}
    (found,) = verdicts(made, one, replies(
        requests(made, ASK, one), lambda r: logprob(chances[r.continuation or ""])
    ))  # fmt: skip
    assert (found.value, found.status) == (pytest.approx(value), status)
    assert [part.reason for part in found.parts] == ["p(yes) + p(no) = 0.09"]


def test_two_impossible_words_have_no_probability() -> None:
    made = judge()
    one = case("good")
    impossible = Answer("ok", logprobs=(-math.inf,))
    (found,) = verdicts(made, one, replies(requests(made, ASK, one), lambda _: impossible))
    assert (found.value, found.status) == (None, "failed:nan")


@pytest.mark.parametrize("values", [{"no_word": "Yes"}, {"checks": {}}, {"yes_word": ""}])
def test_wrong_values(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        judge(**values)
