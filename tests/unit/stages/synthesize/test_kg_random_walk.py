from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import UserError
from schemas.ids import content_id
from stages.metrics.answers import normalise
from stages.runtime.variant import validate
from stages.synthesize._splits import SplitShares, split_regions
from stages.synthesize.kg_random_walk import (
    Config,
    Edge,
    Graph,
    document_links,
    sample_walks,
    walk,
)
from tests.unit.stages.harness import data_bytes, put_corpus, run_stage

SHARES = {"train": 0.7, "validation": 0.1, "test": 0.2}
VALUES: dict[str, Any] = {
    "kind": "kg_random_walk", "questions": {"train": 12, "validation": 2, "test": 4},
    "hop_weights": [0.2, 0.5, 0.3], "splits": SHARES, "wording": "noun_chain", "attempts": 20,
    "seed": 0,
}  # fmt: skip


def graph_of(triples: Sequence[tuple[str, str, str, str]]) -> Graph:
    edges = [Edge(h, r, t, doc, (f"chunk of {doc}",)) for h, r, t, doc in triples]
    by_head: dict[str, list[Edge]] = {}
    tails: dict[tuple[str, str], set[str]] = {}
    for edge in edges:
        by_head.setdefault(normalise(edge.head), []).append(edge)
        key = normalise(edge.head), normalise(edge.relation)
        tails.setdefault(key, set()).add(normalise(edge.tail))
    return Graph(tuple(edges), by_head, {key: frozenset(tail) for key, tail in tails.items()})


def config(**values: Any) -> Config:
    made = validate("synthesize", {**VALUES, **values})
    assert isinstance(made, Config)
    return made


NAMES = st.sampled_from([*"abcdefgh", "A", "the b"])
TRIPLES = st.lists(
    st.tuples(NAMES, st.sampled_from("rs"), NAMES, st.sampled_from([f"d{n}" for n in range(6)])),
    min_size=1,
    max_size=30,
).map(lambda edges: [e for e in edges if normalise(e[0]) != normalise(e[2])])


@given(triples=TRIPLES, seed=st.integers(0, 999))
def test_walks_keep_the_rules(triples: list[tuple[str, str, str, str]], seed: int) -> None:
    graph = graph_of(triples)
    splits = SplitShares(train=0.5, validation=0.1, test=0.4)
    split_of = split_regions(document_links(graph), splits, seed)
    made = config(seed=seed)
    seen: set[tuple[str, ...]] = set()
    keys = []
    for split in ("train", "test"):
        for path in sample_walks(graph, split_of, split, 6, made, seen):
            if isinstance(path, str):
                assert path in ("dead_end", "ambiguous_relation", "duplicate_question")
                continue
            keys.append((normalise(path[0].head), *(normalise(edge.relation) for edge in path)))
            entities = [normalise(path[0].head), *(normalise(edge.tail) for edge in path)]
            documents = [edge.doc_id for edge in path]
            assert len(set(entities)) == len(entities)
            assert len(set(documents)) == len(documents)
            assert {split_of[document] for document in documents} == {split}
            for before, after in itertools.pairwise(path):
                assert normalise(before.tail) == normalise(after.head)
            for edge in path:
                key = normalise(edge.head), normalise(edge.relation)
                tails = {
                    normalise(t) for h, r, t, _ in triples if (normalise(h), normalise(r)) == key
                }
                assert len(tails) == 1
    assert len(set(keys)) == len(keys)


@given(triples=TRIPLES, seed=st.integers(0, 99))
def test_the_same_seed_walks_the_same(triples: list[tuple[str, str, str, str]], seed: int) -> None:
    graph = graph_of(triples)
    split_of = dict.fromkeys(document_links(graph), "train")
    made = config(seed=seed)
    first, second = (list(sample_walks(graph, split_of, "train", 5, made, set())) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("triples", "outcome"),
    [
        ([("a", "r", "b", "d1")], "dead_end"),
        ([("a", "r", "b", "d1"), ("A", "r", "c", "d2")], "ambiguous_relation"),
        ([("a", "r", "b", "d1"), ("b", "r", "c", "d1")], "dead_end"),  # the same document
        ([("a", "r", "b", "d1"), ("b", "r", "A", "d2")], "dead_end"),  # back to the start
        ([("a", "r", "b", "d1"), ("b", "r", "c", "d2"), ("b", "r", "d", "d3")], "dead_end"),
    ],
)
def test_walks_that_end(triples: list[tuple[str, str, str, str]], outcome: str) -> None:
    graph = graph_of(triples)
    split_of = dict.fromkeys(document_links(graph), "train")
    assert walk(graph, graph.edges[0], 2, split_of, random.Random(0)) == outcome


def test_a_walk_does_not_leave_its_split() -> None:
    graph = graph_of([("a", "r", "b", "d1"), ("b", "r", "c", "d2")])
    split_of = {"d1": "train", "d2": "test"}
    assert walk(graph, graph.edges[0], 2, split_of, random.Random(0)) == "dead_end"
    path = walk(graph, graph.edges[0], 2, dict.fromkeys(split_of, "train"), random.Random(0))
    assert path == graph.edges


def ring(count: int) -> tuple[list[tuple[str, str]], list[dict[str, Any]]]:
    """Documents that each state one fact, whose tail is the next one's head."""
    passages, triples = [], []
    for number in range(count):
        head, tail = f"E{number}", f"E{(number + 1) % count}"
        title, text = head, f"The next of {head} is {tail}."
        passages.append((title, text))
        doc_id = content_id(title, text)
        triples.append(
            {
                "triple_id": content_id(head, "next", tail, doc_id), "head": head,
                "relation": "next", "tail": tail, "head_type": None, "tail_type": None,
                "doc_id": doc_id, "char_start": 0, "char_end": len(text),
            }
        )  # fmt: skip
    return passages, triples


def test_stage(tmp_path: Path) -> None:
    passages, triples = ring(40)
    triples.append({**triples[0], "triple_id": "x", "relation": "unknown", "tail": "Z",
                    "char_start": None, "char_end": None})  # fmt: skip
    put_corpus(tmp_path, passages, triples)
    ran = run_stage(tmp_path, "synthesize", VALUES)
    rows = ran.rows("questions")
    accounting = ran.accounting("questions")
    assert accounting["in"] == ran.metrics["walks_tried"]
    assert accounting["in"] == accounting["out"] + sum(accounting["dropped"].values())
    assert accounting["dropped"]["dead_end"] > 0  # at the borders of the splits
    assert ran.metrics["triples_without_sentence"] == 1
    golds: dict[str, str] = {}
    for row in rows:
        assert len(row["gold_chunk_ids"]) == len(row["gold_doc_ids"]) == row["hops"]
        assert row["entities"][-1] == row["answer"]
        assert row["question"].count("the next") == row["hops"]
        for doc_id in row["gold_doc_ids"]:
            assert golds.setdefault(doc_id, row["split"]) == row["split"]
    before = data_bytes(ran, "questions")
    assert data_bytes(run_stage(tmp_path, "synthesize", VALUES), "questions") == before
    other = run_stage(tmp_path, "synthesize", {**VALUES, "seed": 1})
    assert data_bytes(other, "questions") != before


def test_no_graph(tmp_path: Path) -> None:
    put_corpus(tmp_path, [("A", "One fact.")])
    with pytest.raises(UserError, match=r"(?s)nothing to walk.*synthesize=import_qa"):
        run_stage(tmp_path, "synthesize", VALUES)
    assert not (tmp_path / "data" / "questions").exists()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hop_weights": [0.0]}, "one must be positive"),
        ({"hop_weights": []}, "at least 1"),
        ({"questions": {"train": 0, "validation": 0, "test": 1}}, r"synthesize\.questions\.train"),
        ({"steps": 3}, r"unknown parameter 'synthesize\.steps'"),
        ({"splits": {"train": 0.7, "validation": 0.1, "test": 0.1}}, "the shares sum to 0.8"),
    ],
)
def test_wrong_parameters(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        config(**values)
