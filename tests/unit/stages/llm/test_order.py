"""The order of requests."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from stages.llm.order import new_shares, ordered, prompt_text, windows
from stages.llm.request import Message, Request

TEXTS = st.text("abc", max_size=6)
REQUESTS = st.lists(st.tuples(TEXTS, st.sampled_from(["", "x", "y"]))).map(
    lambda drawn: [Request(str(i), text, group=group) for i, (text, group) in enumerate(drawn)]
)


@given(REQUESTS)
def test_none_is_lost_and_groups_stay_together(requests: list[Request]) -> None:
    found = ordered(requests)
    assert sorted(found, key=lambda r: int(r.id)) == requests
    groups = [request.group or f"={request.prompt}" for request in found]
    changes = sum(a != b for a, b in pairwise(groups))
    assert changes == max(len(set(groups)) - 1, 0)
    # Groups keep the order in which they first appear.
    first = list(dict.fromkeys(request.group or f"={request.prompt}" for request in requests))
    assert list(dict.fromkeys(groups)) == first


@given(REQUESTS)
def test_shares_of_new_text(requests: list[Request]) -> None:
    before = ""
    texts = [prompt_text(request) for request in requests]
    for text, share in zip(texts, new_shares(texts), strict=True):
        common = max(n for n in range(len(text) + 1) if before.startswith(text[:n]))
        assert share == (1 - common / len(text) if text else 0.0)
        before = text


@given(REQUESTS, st.integers(1, 5), st.integers(1, 20))
def test_windows_hold_everything_in_order(
    requests: list[Request], most: int, characters: int
) -> None:
    parts = list(windows(iter(requests), most, characters))
    assert [request for part in parts for request in part] == requests
    assert all(1 <= len(part) <= most for part in parts)
    assert all(sum(len(str(r.prompt)) for r in part[:-1]) < characters for part in parts)


def test_turns_of_other_roles_are_other_texts() -> None:
    one = Request("a", (Message("user", "x"), Message("assistant", "y")))
    two = Request("b", (Message("user", "x"), Message("user", "y")))
    assert prompt_text(one) != prompt_text(two)
