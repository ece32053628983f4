"""Citation F-beta and LongRLVR's reward against the vectors of methods.md section 5."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.rewards.citation import CitationScore, citation_score, longrlvr_reward

IDS = st.lists(st.integers(0, 9), max_size=8)
GOLD = st.frozensets(st.integers(0, 9), min_size=1, max_size=5)
UNIT = st.floats(0, 1)


@pytest.mark.parametrize(
    ("cited", "f", "wrong", "right"),
    [
        ([3, 7], 0.7143, 0.0714, 1.7143),
        ([3, 7, 9, 11], 0.9375, 0.0938, 1.9375),
        ([3, 3, 7], 0.6667, 0.0667, 1.6667),
    ],
)
def test_vectors(cited: list[int], f: float, wrong: float, right: float) -> None:
    score = citation_score(cited, {3, 7, 9})
    assert score.f == pytest.approx(f, abs=5e-5)
    assert longrlvr_reward(0.0, score.f) == pytest.approx(wrong, abs=5e-5)
    assert longrlvr_reward(1.0, score.f) == pytest.approx(right, abs=5e-5)


def test_duplicates() -> None:
    paper = citation_score([3, 3, 7], {3, 7, 9})
    assert (paper.precision, paper.recall) == pytest.approx((2 / 3, 2 / 3))
    unique = citation_score([3, 3, 7], {3, 7, 9}, duplicates="ignore")
    assert unique == citation_score([3, 7], {3, 7, 9})
    assert unique.f == pytest.approx(0.7143, abs=5e-5)


def test_beta_one_is_the_harmonic_mean() -> None:
    assert citation_score([1, 2, 3, 4], {1}, beta=1.0).f == pytest.approx(0.4)


def test_nothing_cited_and_text_ids() -> None:
    assert citation_score([], {1}) == CitationScore(0.0, 0.0, 0.0)
    assert citation_score([5], {1}) == CitationScore(0.0, 0.0, 0.0)
    assert citation_score(["d1"], {"d1"}) == CitationScore(1.0, 1.0, 1.0)


@pytest.mark.parametrize("beta", [0.0, -1.0, float("nan"), float("inf"), 1e200])
def test_beta_must_be_positive(beta: float) -> None:
    with pytest.raises(ValueError, match="beta"):
        citation_score([1], {1}, beta=beta)


def test_bad_input_is_an_error() -> None:
    with pytest.raises(ValueError, match="without gold"):
        citation_score([1], [])
    with pytest.raises(ValueError, match="duplicates"):
        citation_score([1], [1], duplicates="sum")  # type: ignore[arg-type]
    for arguments in [(1.5, 0.5), (0.5, -0.1), (float("nan"), 0.5)]:
        with pytest.raises(ValueError, match=r"\[0, 1\]"):
            longrlvr_reward(*arguments)


@given(IDS, GOLD, st.sampled_from([1e-9, 0.5, 1.0, 2.0, 1e6]), st.integers(0, 7))
def test_duplicates_never_pay(cited: list[int], gold: frozenset[int], beta: float, i: int) -> None:
    once = citation_score(cited, gold, beta)
    for value in (once.precision, once.recall, once.f):
        assert 0.0 <= value <= 1.0
    if cited:
        twice = [*cited, cited[i % len(cited)]]
        again = citation_score(twice, gold, beta)
        assert again.precision <= once.precision
        assert again.f <= once.f
        assert again.recall == once.recall
        assert (again.precision < once.precision) == (once.precision > 0)
        ignored = citation_score(twice, gold, beta, "ignore")
        assert ignored == citation_score(cited, gold, beta, "ignore")


@given(UNIT, UNIT, UNIT)
def test_longrlvr_bounds(answer: float, f: float, eta: float) -> None:
    reward = longrlvr_reward(answer, f, eta)
    assert 0.0 <= reward <= 2.0 + 1e-12
    assert longrlvr_reward(1.0, f, eta) == pytest.approx(1.0 + f)
