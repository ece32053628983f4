from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.distractors._assemble import AssemblyConfig, Pool, assemble, filler, position
from stages.llm.prompts import Chunk, Document, load_template, render_prompt
from tests.unit.stages.harness import question

TEMPLATE = load_template("plain")


class Words:
    """A tokenizer that counts white-space words."""

    chat_template = None

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        return [0] * len(text.split())

    def apply_chat_template(self, conversation: Any, **kwargs: Any) -> Any:
        raise AssertionError("plain text has no chat template")


def library(sizes: dict[str, int]) -> dict[str, Document]:
    """Documents of so many words, each one chunk (whose marker is one more word)."""
    texts = {name: " ".join(["w"] * size) for name, size in sizes.items()}
    return {
        name: Document(name, name, text, (Chunk(f"chunk of {name}", 0, len(text)),))
        for name, text in texts.items()
    }


def config(budgets: tuple[int, ...], seed: int = 0) -> AssemblyConfig:
    return AssemblyConfig(
        kind="test", budgets=budgets, prompt="plain", max_over_budget=0.0, seed=seed
    )


def made(
    sizes: dict[str, int],
    gold: list[str],
    ranked: list[tuple[str, str]],
    budgets: tuple[int, ...],
    seed: int = 0,
    name: str = "x",
) -> list[dict[str, Any]] | None:
    return assemble(
        question(name, gold), ranked, library(sizes), TEMPLATE, Words(), config(budgets, seed), {}
    )


def size(documents: list[str], sizes: dict[str, int], name: str = "x") -> int:
    shelf = library(sizes)
    text = render_prompt(TEMPLATE, f"What is {name}?", [shelf[d] for d in documents], Words()).text
    return len(text.split())


def ids(row: dict[str, Any]) -> list[str]:
    return [entry["doc_id"] for entry in row["documents"]]


CASES = st.dictionaries(
    st.sampled_from([f"d{n}" for n in range(12)]), st.integers(1, 30), min_size=1
).flatmap(
    lambda sizes: st.tuples(
        st.just(sizes),
        st.lists(st.sampled_from(sorted(sizes)), min_size=1, max_size=3, unique=True),
        st.lists(
            st.tuples(st.sampled_from(sorted(sizes)), st.sampled_from(["tier1", "tier2", "filler"]))
        ),
    )
)
BUDGETS = st.lists(st.integers(5, 200), min_size=1, max_size=3).map(tuple)


@given(CASES, BUDGETS, st.integers(0, 99))
def test_contexts_keep_the_rules(case: Any, budgets: tuple[int, ...], seed: int) -> None:
    sizes, gold, ranked = case
    rows = made(sizes, gold, ranked, budgets, seed)
    gold_size = size(gold, sizes)
    if rows is None:
        assert gold_size > max(budgets)
        return
    long, short = rows
    assert (long["view"], short["view"]) == ("long", "short")
    assert sorted(ids(short)) == sorted(gold)
    for row in rows:
        assert row["budget_tokens"] in budgets
        assert row["n_tokens"] == size(ids(row), sizes) <= row["budget_tokens"]
        assert len(set(ids(row))) == len(ids(row))
        roles = {entry["doc_id"]: entry["role"] for entry in row["documents"]}
        assert {doc for doc, role in roles.items() if role == "gold"} == set(gold)
        assert row["n_gold"] == len(gold)
        assert 0 <= row["gold_position"] <= 1
        first = next((t for t in ("tier1", "tier2", "filler") if t in roles.values()), "none")
        assert row["hardest_tier"] == first
    # What was offered and left out does not fit any more: the context is as full as it can be.
    for doc, _ in ranked:
        if doc not in ids(long):
            assert size([*ids(long), doc], sizes) > long["budget_tokens"]


@given(CASES, st.integers(0, 99), st.randoms(use_true_random=False))
def test_the_order_comes_from_the_seed_alone(case: Any, seed: int, mixer: Any) -> None:
    sizes, gold, ranked = case
    everything = (10_000,)
    rows = made(sizes, gold, ranked, everything, seed)
    mixed_gold, mixed = list(gold), list(dict(ranked).items())
    mixer.shuffle(mixed_gold)
    mixer.shuffle(mixed)
    turned = made(sizes, mixed_gold, mixed, everything, seed)
    assert rows is not None
    assert turned is not None
    assert [ids(row) for row in rows] == [ids(row) for row in turned]


def test_another_seed_or_question_gives_another_order() -> None:
    sizes = {f"d{n:02}": 1 for n in range(30)}
    ranked = [(name, "filler") for name in sizes]
    orders = set()
    for seed, name in ((0, "x"), (1, "x"), (0, "y")):
        rows = made(sizes, ["d00"], ranked, (500,), seed, name)
        assert rows is not None
        orders.add(tuple(ids(rows[0])))
    assert len(orders) == 3


def test_earlier_ranks_are_taken_first() -> None:
    sizes = {"g": 5, "a": 40, "b": 10, "c": 10}
    room = size(["g", "b", "c"], sizes)
    rows = made(sizes, ["g"], [("a", "tier1"), ("b", "tier1"), ("c", "tier2")], (room,))
    assert rows is not None
    assert sorted(ids(rows[0])) == ["b", "c", "g"]
    rows = made(sizes, ["g"], [("c", "tier2"), ("b", "tier1")], (room - 1,))
    assert rows is not None
    assert sorted(ids(rows[0])) == ["c", "g"]


@pytest.mark.parametrize(("gold_words", "budget"), [(5, 20), (30, 60), (70, 90), (120, None)])
def test_the_budget_moves_up_to_the_next_that_fits(gold_words: int, budget: int | None) -> None:
    drawn = set()
    for number in range(40):
        rows = made({"g": gold_words}, ["g"], [], (60, 20, 90), name=str(number))
        if budget is None:
            assert rows is None
        else:
            assert rows is not None
            drawn.add(rows[0]["budget_tokens"])
    if budget is not None:
        assert drawn == {b for b in (20, 60, 90) if b >= budget}  # and each of them is drawn


def test_tokens_that_do_not_add_up_never_go_over() -> None:
    class Seams(Words):
        """Every document beyond the first costs three more words than alone."""

        def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
            return [0] * (len(text.split()) + 3 * max(0, text.count("[") - 1))

    sizes = {f"d{n}": 5 for n in range(10)}
    ranked = [(name, "filler") for name in sizes]
    rows = assemble(question("x", ["d0"]), ranked, library(sizes), TEMPLATE, Seams(),
                    config((45,)), {})  # fmt: skip
    assert rows is not None
    assert 1 < len(ids(rows[0])) < 7
    assert rows[0]["n_tokens"] <= 45
    assert "d0" in ids(rows[0])


def test_position() -> None:
    shelf = library({"a": 1, "b": 2, "c": 5})
    assert position(["a"], "a", shelf) == 0.5
    assert position(["a", "b", "c"], "a", shelf) == 0.0
    assert position(["b", "c", "a"], "a", shelf) == 1.0
    assert position(["b", "a", "c"], "a", shelf) == 3 / 12


def test_filler_is_seeded_by_the_question() -> None:
    pool = Pool({}, tuple(f"d{n}" for n in range(50)), {})
    first, again, other, reseeded = (
        list(filler(name, pool, seed, 5)) for name, seed in (("q", 0), ("q", 0), ("r", 0), ("q", 1))
    )
    assert first == again
    assert first != other and first != reseeded


@given(st.integers(0, 40), st.none() | st.integers(0, 60), st.integers(0, 99))
def test_filler_draws_each_document_once(size: int, count: int | None, seed: int) -> None:
    pool = Pool({}, tuple(f"d{n}" for n in range(size)), {})
    drawn = list(filler("q", pool, seed, count))
    assert len(drawn) == len(set(drawn)) == min(size, size if count is None else count)
    assert set(drawn) <= {(doc_id, "filler") for doc_id in pool.doc_ids}
    # A bound cuts the draw off and changes nothing before it.
    assert drawn == list(filler("q", pool, seed, None))[: len(drawn)]


def test_filler_draws_all_documents_alike() -> None:
    pool = Pool({}, tuple(f"d{n}" for n in range(10)), {})
    seen = Counter(doc for n in range(2000) for doc, _ in filler(f"q{n}", pool, 0, 3))
    assert len(seen) == 10
    assert all(abs(count - 600) < 100 for count in seen.values())  # 600 expected, 20.5 deviation
