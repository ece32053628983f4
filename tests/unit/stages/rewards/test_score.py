"""Scoring a group: published vectors end to end, failures, ill-formed text, and the dry run."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import UserError
from stages.rewards.score import Reward, Sample, check_reward, score_group
from stages.rewards.spec import RewardConfig

NAMES = ("Ada", "Bob", "Cid", "Dot", "Eve")


def make(
    outcome: bool, named: int = 0, cited: Sequence[int] = (), reason: str = "stop", **changes: Any
) -> Sample:
    """A rollout that answers right or wrong, names so many of five entities, and cites."""
    evidence = " ".join([*NAMES[:named], *(f"[{i}]" for i in cited)])
    text = f"thoughts </think> {evidence}\nAnswer: {'Paris' if outcome else 'Rome'}"
    sample = Sample("q", text, reason, "exact_match", ("Paris",), NAMES, (3, 7, 9))
    return dataclasses.replace(sample, **changes)


def test_a_response_is_read_as_its_prompt_asked() -> None:
    outcome = config({"o": {"kind": "outcome"}}, {"kind": "weighted_sum", "weights": {"o": 1.0}})
    for thinking, value in ((True, 0.0), (False, 1.0)):
        sample = make(True, text="Answer: Paris", thinking=thinking)
        assert score_group(outcome, [sample])[0].value == value
        if not thinking:
            check_reward(outcome, [sample])


def config(terms: dict[str, Any], combine: dict[str, Any]) -> RewardConfig:
    return RewardConfig.model_validate({"terms": terms, "combine": combine})


def traced(**rubric: str) -> RewardConfig:
    return config(
        {"outcome": {"kind": "outcome"}, "rubric": {"kind": "entity_recall", **rubric}},
        {"kind": "positive_only", "outcome": "outcome", "rubric": "rubric"},
    )


def modelled(squash: str = "sigmoid", weight: float = 1.0) -> RewardConfig:
    return config(
        {"outcome": {"kind": "outcome"}, "rm": {"kind": "reward_model", "squash": squash}},
        {"kind": "weighted_sum", "weights": {"outcome": 1.0, "rm": weight}},
    )


LONGRLVR = config(
    {"outcome": {"kind": "outcome"}, "cites": {"kind": "citation"}},
    {"kind": "longrlvr", "outcome": "outcome", "citation": "cites"},
)
ILL_FORMED = {
    "truncated": make(True, 5, (3,), reason="length"),
    "no_think_end": make(True, text="Ada Answer: Paris", finish_reason="stop"),
    "many_think_ends": make(True, text="a </think> Ada </think> Answer: Paris"),
    "no_answer": make(True, text="a </think> Ada Bob Cid [3] Paris"),
    "empty": make(True, text=""),
}


def values(rewards: Sequence[Reward]) -> list[float | None]:
    return [reward.value for reward in rewards]


def test_longtracerl_vectors() -> None:
    group = [make(True, 4), make(True, 2), make(False, 3), make(False, 0)]
    rewards = score_group(traced(), group)
    assert values(rewards) == pytest.approx([1.0, 0.85, 0.0, 0.0])
    assert rewards[1].raw == pytest.approx({"outcome": 1.0, "rubric": 0.4})
    assert rewards[1].parts == pytest.approx({"outcome": 1.0, "rubric": 0.5})
    assert rewards[2].parts["rubric"] == pytest.approx(0.75)  # kept, though not paid


def test_whose_maximum() -> None:
    group = [make(True, 4), make(True, 2), make(False, 5), make(True, 0)]
    assert values(score_group(traced(), group)) == pytest.approx([0.94, 0.82, 0.0, 0.7])
    ours = score_group(traced(max_over="correct"), group)
    assert values(ours) == pytest.approx([1.0, 0.85, 0.0, 0.7])
    carr = score_group(traced(group="none"), group[:2])
    assert values(carr) == pytest.approx([0.94, 0.82])


def test_longrlvr_vectors() -> None:
    group = [make(True, 0, (3, 7)), make(False, 0, (3, 7, 9, 11)), make(True, 0, (3, 3, 7))]
    assert values(score_group(LONGRLVR, group)) == pytest.approx([1.7143, 0.0938, 1.6667], abs=5e-5)


def test_every_option_reaches_the_arithmetic() -> None:
    def one(sample: Sample, term: dict[str, Any], combine: dict[str, Any]) -> float | None:
        terms = {"outcome": {"kind": "outcome"}, "t": term}
        return score_group(config(terms, {"outcome": "outcome", **combine}), [sample])[0].value

    positive = {"kind": "positive_only", "rubric": "t", "eta": 1.0}
    annual = make(True, text="t </think> annual. Answer: Paris", entities=("Ann",))
    assert one(annual, {"kind": "entity_recall"}, positive) == 0.0
    assert one(annual, {"kind": "entity_recall", "boundary": "substring"}, positive) == 1.0

    cites = make(True, 0, (3, 3, 7))
    longrlvr = {"kind": "longrlvr", "citation": "t", "eta": 0.5}
    assert one(cites, {"kind": "citation"}, positive) == pytest.approx(2 / 3)
    assert one(cites, {"kind": "citation", "duplicates": "ignore"}, positive) == pytest.approx(
        5 / 7
    )
    assert one(make(True, 0, (3,)), {"kind": "citation", "beta": 1.0}, positive) == 0.5
    wrong = make(False, 0, (3, 7))
    assert one(wrong, {"kind": "citation"}, longrlvr) == pytest.approx(5 / 14)


@pytest.mark.parametrize("status", sorted(ILL_FORMED))
def test_ill_formed_is_zero_on_every_term_and_says_why(status: str) -> None:
    terms = {
        kind: {"kind": kind} for kind in ("outcome", "entity_recall", "citation", "format")
    } | {"rm": {"kind": "reward_model"}}
    everything = config(terms, {"kind": "weighted_sum", "weights": dict.fromkeys(terms, 1.0)})
    good = make(True, 5, (3, 7, 9))
    asked: list[Sample] = []

    def reward_model(samples: Sequence[Sample]) -> list[float]:
        asked.extend(samples)
        return [0.0] * len(samples)

    bad, well = score_group(everything, [ILL_FORMED[status], good], reward_model)
    assert bad.status == status
    assert bad.parts == dict.fromkeys(terms, 0.0)
    assert bad.value == 0.0
    assert well.value == pytest.approx(4.5)
    assert asked == [good]


def test_thinking_earns_nothing() -> None:
    hidden = make(False, text=f"{' '.join(NAMES)} [3] Answer: Paris </think> Answer: Rome")
    [reward] = score_group(traced(), [hidden])
    assert reward.raw == {"outcome": 0.0, "rubric": 0.0}


def test_the_reward_model_is_squashed_or_not() -> None:
    group = [make(True), make(False)]
    squashed = score_group(modelled(), group, lambda s: [0.0, -800.0])
    assert values(squashed) == pytest.approx([1.5, 0.0])
    plain = score_group(modelled("none"), group, lambda s: [2.0, -3.0])
    assert values(plain) == pytest.approx([3.0, -3.0])
    assert plain[1].raw["rm"] == -3.0


def test_breaking_the_format_never_beats_an_honest_negative_score() -> None:
    group = [ILL_FORMED["truncated"], make(False), make(False)]
    assert values(score_group(modelled("none"), group, lambda s: [-3.0, -1.0])) == [-3, -3, -1]
    assert values(score_group(modelled("none"), group, lambda s: [3.0, 1.0])) == [0, 3, 1]


@pytest.mark.parametrize("broken", [float("nan"), float("inf"), None, "0.5x"])
def test_a_failed_score_is_no_number_and_touches_no_other(broken: Any) -> None:
    group = [make(True), make(True)]
    failed, fine = score_group(modelled("none"), group, lambda s: [broken, 2.0])
    assert failed == Reward(
        None, {"outcome": 1.0, "rm": None}, {"outcome": 1.0, "rm": None}, "failed:rm"
    )
    assert (fine.value, fine.status) == (3.0, "ok")


def crash(samples: Sequence[Sample]) -> list[float]:
    raise RuntimeError("out of memory")


def test_a_crashing_reward_model_fails_what_it_was_asked() -> None:
    rewards = score_group(modelled(), [make(True), ILL_FORMED["empty"]], crash)
    assert [(r.value, r.status) for r in rewards] == [(None, "failed:rm"), (0.0, "empty")]


def test_a_term_for_the_log_alone_may_fail() -> None:
    [reward] = score_group(modelled(weight=0.0), [make(True)], crash)
    assert (reward.value, reward.status, reward.parts["rm"]) == (1.0, "ok", None)


def test_what_the_user_can_fix_is_not_swallowed() -> None:
    def missing(samples: Sequence[Sample]) -> list[float]:
        raise UserError("no such model")

    with pytest.raises(UserError, match="no such model"):
        score_group(modelled(), [make(True)], missing)
    with pytest.raises(UserError, match="bleu"):
        score_group(traced(), [make(True, metric="bleu")])


@pytest.mark.parametrize(
    ("reward_config", "changes", "term"),
    [
        (traced(), {"entities": ()}, "rubric"),
        (traced(), {"golds": ()}, "outcome"),
        (traced(), {"golds": ("?!",)}, "outcome"),
        (LONGRLVR, {"gold_citations": ()}, "cites"),
    ],
)
def test_a_missing_reference_is_a_failure_whatever_the_format(
    reward_config: RewardConfig, changes: dict[str, Any], term: str
) -> None:
    group = [make(True, **changes), dataclasses.replace(ILL_FORMED["truncated"], **changes)]
    for reward in score_group(reward_config, group):
        assert (reward.value, reward.status) == (None, f"failed:{term}")


def test_misuse_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"\['rm'\] need a reward model"):
        score_group(modelled(), [make(True)])
    with pytest.raises(ValueError, match="one question"):
        score_group(traced(), [make(True), make(True, question_id="other")])
    with pytest.raises(ValueError, match="1 scores for 2"):
        score_group(modelled(), [make(True), make(True)], lambda s: [1.0])
    assert score_group(traced(), []) == []


SAMPLES = st.builds(
    make,
    st.booleans(),
    st.integers(0, 5),
    st.lists(st.integers(1, 12), max_size=5),
    st.sampled_from(["stop", "length"]),
)


@settings(max_examples=60)
@given(st.lists(SAMPLES, min_size=1, max_size=6), st.randoms())
def test_rewards_are_bounded_and_blind_to_order(group: list[Sample], random: Any) -> None:
    shuffled = group[:]
    random.shuffle(shuffled)
    for reward_config, top in [(traced(), 1), (traced(max_over="correct"), 1), (LONGRLVR, 2)]:
        rewards = score_group(reward_config, group)
        for sample, reward in zip(group, rewards, strict=True):
            assert reward.value is not None
            assert 0.0 <= reward.value <= top + 1e-9
            assert all(part is not None and 0.0 <= part <= 1.0 for part in reward.parts.values())
            if reward.parts["outcome"] == 0.0 and top == 1:
                assert reward.value == 0.0
            if sample.finish_reason == "length":
                assert reward.value == 0.0
        by_text = {(s.text, s.finish_reason): r for s, r in zip(group, rewards, strict=True)}
        for sample, reward in zip(shuffled, score_group(reward_config, shuffled), strict=True):
            assert by_text[sample.text, sample.finish_reason] == reward


def test_the_dry_run_returns_the_parts() -> None:
    demonstrations = [make(True, 5), make(True, 3, question_id="other")]
    assert check_reward(traced(), demonstrations) == [
        {"outcome": 1.0, "rubric": 1.0},
        {"outcome": 1.0, "rubric": 0.6},
    ]
    assert check_reward(modelled(), [make(True)]) == [{"outcome": 1.0, "rm": None}]
    assert check_reward(modelled(), [make(True)], lambda s: [0.3])[0]["rm"] == 0.3


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([ILL_FORMED["no_think_end"]] * 2, r"every gold.*\{'no_think_end': 2\}"),
        ([make(True, 5), make(False, 5)], "'q': outcome 0.0 instead of 1.*Rome.*Paris"),
        ([make(True, 5), ILL_FORMED["truncated"]], r"outcome 0.0 instead of 1.*truncated"),
        ([make(True, 5), make(True, 5, entities=())], "'rubric'.*nothing to compare"),
        ([make(True, 0), make(True, 0)], "'rubric' is 0 on all 2"),
    ],
)
def test_the_dry_run_stops_a_reward_that_gold_cannot_earn(
    samples: list[Sample], message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        check_reward(traced(), samples)
    assert caught.value.fix


def test_the_dry_run_tries_the_reward_model_if_there_is_one() -> None:
    with pytest.raises(UserError, match="no finite score"):
        check_reward(modelled(), [make(True)], crash)
    with pytest.raises(ValueError, match="at least one"):
        check_reward(traced(), [])
