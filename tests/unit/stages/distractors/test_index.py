from __future__ import annotations

from schemas.ids import content_id
from stages.distractors._index import SearchIndex


def index(**texts: str) -> SearchIndex:
    rows = ({"doc_id": name, "title": "", "text": text} for name, text in sorted(texts.items()))
    return SearchIndex.build(rows)


def test_equal_scores_come_in_the_order_of_the_id() -> None:
    names = sorted(content_id(number) for number in range(40))
    tied = index(**dict.fromkeys(names, "the same red words"), zz="blue things are other")
    assert tied.search("red", 40) == names
    assert tied.search("red", 3) == names[:3]


def test_better_matches_come_first() -> None:
    found = index(a="red fish", b="red red fish", c="blue fish").search("red", 9)
    assert found == ["b", "a"]  # without a score there is no result


def test_title_counts() -> None:
    rows = [
        {"doc_id": "a", "title": "Lyon", "text": "A city."},
        {"doc_id": "b", "title": "Rome", "text": "A city."},
    ]
    assert SearchIndex.build(rows).search("rome", 5) == ["b"]


def test_query_without_a_known_word() -> None:
    assert index(a="red fish", b="blue fish").search("zebra ???", 5) == []
    assert index(a="red fish", b="blue fish").search("", 5) == []
    assert index(a="a", b="?").search("a fish", 5) == []  # nothing that can be found


def test_a_word_that_comes_twice_in_the_query_is_no_error() -> None:
    assert index(a="red fish", b="blue sea").search("red zebra red", 5) == ["a"]
