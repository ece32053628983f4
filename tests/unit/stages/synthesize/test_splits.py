from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from stages.synthesize._splits import SplitShares, split_components, split_regions

SHARES = SplitShares(train=0.7, validation=0.1, test=0.2)
DOCUMENTS = st.sampled_from([f"d{n}" for n in range(12)])
GOLD = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=4), st.lists(DOCUMENTS, min_size=1, max_size=3)
)
LINKS = st.sets(st.tuples(DOCUMENTS, DOCUMENTS)).map(
    lambda pairs: {
        document: sorted(
            {b for a, b in pairs if a == document} | {a for a, b in pairs if b == document}
        )
        for document in {end for pair in pairs for end in pair}
    }
)


@given(gold=GOLD, seed=st.integers(0, 99))
def test_no_gold_document_in_two_splits(gold: dict[str, list[str]], seed: int) -> None:
    split = split_components(gold, SHARES, seed)
    assert split.keys() == gold.keys()
    seen: dict[str, str] = {}
    for question, documents in gold.items():
        for document in documents:
            assert seen.setdefault(document, split[question]) == split[question]


@given(gold=GOLD, seed=st.integers(0, 99))
def test_held_out_splits_never_outgrow_their_share(gold: dict[str, list[str]], seed: int) -> None:
    counts = Counter(split_components(gold, SHARES, seed).values())
    assert counts["test"] <= round(0.2 * len(gold))
    assert counts["validation"] <= round(0.1 * len(gold))


@given(gold=GOLD, seed=st.integers(0, 99))
def test_components_do_not_depend_on_the_order(gold: dict[str, list[str]], seed: int) -> None:
    turned = dict(reversed([(q, docs[::-1]) for q, docs in gold.items()]))
    assert split_components(gold, SHARES, seed) == split_components(turned, SHARES, seed)


def test_shares_are_met_where_nothing_is_shared() -> None:
    gold = {f"q{n}": [f"only {n}"] for n in range(100)}
    split = split_components(gold, SHARES, 0)
    assert Counter(split.values()) == {"train": 70, "validation": 10, "test": 20}
    assert split != split_components(gold, SHARES, 1)


def test_questions_that_are_linked_over_others_stay_together() -> None:
    chain = {"a": ["1", "2"], "b": ["2", "3"], "c": ["3", "4"]}
    gold = {**chain, **{f"q{n}": [f"only {n}"] for n in range(30)}}
    for seed in range(20):
        split = split_components(gold, SHARES, seed)
        assert len({split[question] for question in chain}) == 1


@given(links=LINKS, seed=st.integers(0, 99))
def test_regions_give_every_document_one_split(links: dict[str, list[str]], seed: int) -> None:
    split = split_regions(links, SHARES, seed)
    assert split.keys() == links.keys()
    counts = Counter(split.values())
    assert counts["test"] == round(0.2 * len(links))
    assert counts["validation"] == min(round(0.1 * len(links)), len(links) - counts["test"])
    assert split == split_regions(dict(reversed(links.items())), SHARES, seed)


def test_a_region_is_grown_over_links() -> None:
    ring = {f"d{n:02}": [f"d{(n - 1) % 50:02}", f"d{(n + 1) % 50:02}"] for n in range(50)}
    split = split_regions(ring, SHARES, 3)
    borders = sum(split[a] == "test" and split[b] != "test" for a in ring for b in ring[a])
    assert borders == 2


@pytest.mark.parametrize(
    "shares",
    [
        {"train": 0.7, "validation": 0.2, "test": 0.2},
        {"train": 1.0, "validation": 0.0, "test": 0.0},
    ],
)
def test_shares_that_are_none(shares: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        SplitShares(**shares)
