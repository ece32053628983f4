"""Pairs: the best against the worst, never a tie, and every candidate accounted for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import UserError
from schemas.ids import content_id
from stages.preferences.margin import agreement, best_against_worst
from tests.unit.stages.harness import Ran, data_bytes, put, run_stage

SCORES = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=3),
    st.sampled_from([0.0, 0.1, 0.1 + 0.2, 0.3, 0.5, 1.0]) | st.floats(0, 1),
    max_size=8,
)
MARGINS = st.floats(0, 1, exclude_min=True)


@given(SCORES, MARGINS)
def test_a_pair_has_the_best_the_worst_and_a_margin(scores: dict[str, float], least: float) -> None:
    pair = best_against_worst(scores, least)
    spread = max(scores.values(), default=0.0) - min(scores.values(), default=0.0)
    if isinstance(pair, str):
        reasons = {"too_few_candidates": len(scores) < 2, "tie": spread == 0,
                   "margin_too_small": 0 < spread < least}  # fmt: skip
        assert reasons[pair]
        return
    chosen, rejected = pair
    assert scores[chosen] == max(scores.values())
    assert scores[rejected] == min(scores.values())
    assert scores[chosen] - scores[rejected] >= least > 0


@given(SCORES, MARGINS, st.randoms(use_true_random=False))
def test_the_order_of_candidates_does_not_matter(
    scores: dict[str, float], least: float, random: Any
) -> None:
    shuffled = list(scores.items())
    random.shuffle(shuffled)
    assert best_against_worst(dict(shuffled), least) == best_against_worst(scores, least)


def test_equal_scores_go_by_candidate_id() -> None:
    scores = {"d": 0.0, "b": 1.0, "c": 1.0, "a": 0.0}
    assert best_against_worst(scores, 0.1) == ("c", "a")


def test_agreement_is_the_share_of_dimensions_in_this_order_or_level() -> None:
    better = {"a": 1.0, "b": 0.0, "c": 0.5, "d": 0.0}
    worse = {"a": 0.0, "b": 1.0, "c": 0.5, "d": 9.0}
    assert agreement(better, worse, ["a", "b", "c"]) == pytest.approx(2 / 3)


def judge(folder: Path, scores: dict[str, list[tuple[float | None, ...]]]) -> None:
    """Judgments in two dimensions, `outcome` and `form`, of the candidates of each question."""
    put(folder, "judgments", (
        {
            "candidate_id": f"{question}{number}", "question_id": content_id(question),
            "split": "test" if question == "t" else "train", "dimension": dimension,
            "judge": dimension, "value": value,
            "status": "failed:no_reference" if value is None else "ok",
            "model": None, "prompt_hash": None, "agreement": None, "parts": [],
            "n_prompt_tokens": 0, "n_tokens": 0,
        }
        for question, candidates in scores.items()
        for number, values in enumerate(candidates)
        for dimension, value in zip(("outcome", "form"), values, strict=True)
    ))  # fmt: skip


def run(folder: Path, **values: Any) -> Ran:
    given: dict[str, Any] = {
        "kind": "margin",
        "weights": {"outcome": 3.0, "form": 1.0},
        "min_margin": 0.2,
    }
    return run_stage(folder, "preferences", {**given, **values})


def test_pairs_ties_and_failures(tmp_path: Path) -> None:
    judge(tmp_path, {
        "a": [(0.0, 1.0), (1.0, 0.0), (1.0, 1.0), (0.0, 0.0)],  # a pair
        "b": [(0.5, 0.5), (0.5, 0.5)],  # a tie
        "c": [(0.5, 0.5), (0.5, 0.9)],  # a margin of 0.1
        "d": [(1.0, 1.0), (None, 0.0), (0.0, None)],  # one candidate left
        "e": [(1.0, 1.0), (0.6, 0.0), (0.0, None)],  # the worst one has a failed judgment
        "t": [(1.0, 0.0), (0.0, 1.0)],
    })  # fmt: skip
    ran = run(tmp_path)
    found = {row["question_id"]: row for row in ran.rows("preferences")}
    pairs = {
        question: tuple(
            found[content_id(question)][key]
            for key in ("chosen_id", "rejected_id", "chosen_score", "rejected_score", "split")
        )
        for question in "aet"
    }
    assert len(found) == 3
    assert pairs["a"] == ("a2", "a3", 1.0, 0.0, "train")
    assert pairs["e"] == ("e0", "e1", 1.0, pytest.approx(0.45), "train")
    assert pairs["t"] == ("t0", "t1", 0.75, 0.25, "test")
    assert [found[content_id(q)]["agreement"] for q in "aet"] == [1.0, 1.0, 0.5]
    assert ran.accounting("preferences") == {
        "in": 6, "out": 3, "quarantined": {},
        "dropped": {"tie": 1, "margin_too_small": 1, "too_few_candidates": 1},
    }  # fmt: skip
    assert ran.metrics == {
        "pairs": {"test": 1, "train": 2},
        "candidates_unscored": 3,
        "mean_margin": pytest.approx((1.0 + 0.55 + 0.5) / 3, abs=1e-4),
    }


def test_weights_are_shares_whatever_their_sum(tmp_path: Path) -> None:
    judge(tmp_path, {"a": [(1.0, 0.0), (0.0, 0.5)]})
    first = data_bytes(run(tmp_path), "preferences")
    assert data_bytes(run(tmp_path, weights={"outcome": 6, "form": 2}), "preferences") == first


def test_an_unknown_dimension_lists_those_that_were_judged(tmp_path: Path) -> None:
    judge(tmp_path, {"a": [(1.0, 0.0), (0.0, 0.5)]})
    with pytest.raises(UserError, match="names dimension 'outcom', which no judge") as caught:
        run(tmp_path, weights={"outcom": 1.0, "form": 1.0})
    assert caught.value.allowed == ["form", "outcome"]


@pytest.mark.parametrize("weights", [{"outcome": 0.0}, {"outcome": 2.0, "form": -1.0}])
def test_weights_that_make_no_score(tmp_path: Path, weights: dict[str, float]) -> None:
    judge(tmp_path, {"a": [(1.0, 0.0), (0.0, 0.5)]})
    with pytest.raises(UserError, match="must not be negative and one must be positive"):
        run(tmp_path, weights=weights)


def test_nothing_but_ties_in_train_is_said(tmp_path: Path) -> None:
    judge(tmp_path, {"a": [(1.0, 1.0), (1.0, 1.0)], "t": [(1.0, 0.0), (0.0, 1.0)]})
    with pytest.raises(UserError, match="no pair in the train split"):
        run(tmp_path)
    assert not (tmp_path / "data" / "preferences").exists()
