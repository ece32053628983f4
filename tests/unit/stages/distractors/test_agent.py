from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stages.distractors._agent import Action, queries, search_trace, tiers

WALK = {"question": "Q?", "relations": ["born in", "capital of"], "entities": ["Rome", "Italy"],
        "gold_doc_ids": ["g1", "g2"]}  # fmt: skip


class Scripted:
    """An index that answers known queries."""

    def __init__(self, results: dict[str, list[str]]) -> None:
        self.results = results

    def search(self, query: str, top_k: int) -> list[str]:
        return self.results.get(query, [])[:top_k]


def trace(results: dict[str, list[str]], top_k: int = 9, opens: int = 2) -> list[Action]:
    index: Any = Scripted(results)
    return search_trace(WALK, index, top_k, opens)


def test_queries_of_a_walk_name_the_entity_reached_and_the_next_relation() -> None:
    assert queries(WALK) == ["Q?", "born in Q?", "capital of Rome"]


def test_queries_of_an_imported_question_name_its_entities() -> None:
    assert queries({**WALK, "relations": []}) == ["Q?", "Rome", "Italy"]


def test_trace() -> None:
    made = trace(
        {
            "Q?": ["a", "b", "c"],
            "born in Q?": ["a", "g1", "d"],
            "capital of Rome": ["e", "f", "g2"],  # the gold document stands too low
        }
    )
    assert made == [
        Action("search", ("a", "b", "c"), "Q?"),
        Action("open", ("a",)),
        Action("open", ("b",)),
        Action("search", ("a", "g1", "d"), "born in Q?"),
        Action("open", ("g1",)),  # a was open already
        Action("search", ("e", "f", "g2"), "capital of Rome"),
        Action("open", ("e",)),
        Action("open", ("f",)),
        Action("cite", ("g1",)),
    ]
    # Opened and not cited; returned and never opened; gold is neither, found or not.
    assert tiers(made, WALK["gold_doc_ids"]) == (["a", "b", "e", "f"], ["c", "d"])


def test_it_stops_at_the_gold_document() -> None:
    made = trace({"born in Q?": ["g1", "a"]}, opens=2)
    assert [act.doc_ids for act in made if act.action == "open"] == [("g1",)]
    assert tiers(made, ["g1", "g2"]) == ([], ["a"])


def test_nothing_is_found() -> None:
    made = trace({})
    assert [act.action for act in made] == ["search", "search", "search", "cite"]
    assert made[-1].doc_ids == ()
    assert tiers(made, ["g1"]) == ([], [])


RESULTS = st.lists(st.sampled_from(["g1", "g2", *"abcdef"]), unique=True, max_size=8)


@given(st.lists(RESULTS, min_size=3, max_size=3), st.integers(1, 8), st.integers(1, 4))
def test_tiers_part_what_the_agent_met(found: list[list[str]], top_k: int, opens: int) -> None:
    made = trace(dict(zip(queries(WALK), found, strict=True)), top_k, opens)
    first, second = tiers(made, WALK["gold_doc_ids"])
    met = {doc for results in found for doc in results[:top_k]}
    assert not set(first) & set(second)
    assert set(first) | set(second) == met - {"g1", "g2"}
    opened = {doc for act in made if act.action == "open" for doc in act.doc_ids}
    assert set(first) <= opened
    assert not set(second) & opened
    assert set(made[-1].doc_ids) == opened & {"g1", "g2"}
