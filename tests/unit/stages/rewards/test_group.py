"""Group scope: division by the maximum, and GRPO's advantages against torch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.rewards.group import divide_by_group_max, group_advantages

UNIT = st.lists(st.floats(0, 1), min_size=1, max_size=8)
MIXED = st.lists(st.none() | st.integers(-4, 4).map(float), max_size=8)


def test_the_paper_takes_the_maximum_of_all() -> None:
    assert divide_by_group_max([0.8, 0.4, 1.0, 0.0]) == [0.8, 0.4, 1.0, 0.0]
    assert divide_by_group_max([0.8, 0.4, 0.6, 0.0]) == pytest.approx([1.0, 0.5, 0.75, 0.0])


def test_a_mask_keeps_wrong_rollouts_out_of_the_maximum() -> None:
    # methods.md section 6, defect 3
    correct = [True, True, False, True]
    assert divide_by_group_max([0.8, 0.4, 1.0, 0.0], correct) == [1.0, 0.5, 1.0, 0.0]


def test_nothing_to_divide_by() -> None:
    assert divide_by_group_max([0.0, 0.0]) == [0.0, 0.0]
    assert divide_by_group_max([0.2, 0.4], [False, False]) == [0.2, 0.4]
    assert divide_by_group_max([0.2, 0.0], [False, True]) == [0.2, 0.0]
    assert divide_by_group_max([]) == []


@pytest.mark.parametrize(
    ("values", "mask"),
    [([-0.1], None), ([float("nan")], None), ([float("inf")], None), ([0.1], [True, False])],
)
def test_bad_input_is_an_error(values: list[float], mask: list[bool] | None) -> None:
    with pytest.raises(ValueError, match="values"):
        divide_by_group_max(values, mask)


@given(UNIT, st.data())
def test_division_is_bounded_and_blind_to_order(values: list[float], data: st.DataObject) -> None:
    mask = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    order = data.draw(st.permutations(range(len(values))))
    out = divide_by_group_max(values, mask)
    assert all(0.0 <= value <= 1.0 for value in out)
    shuffled = divide_by_group_max([values[i] for i in order], [mask[i] for i in order])
    assert shuffled == [out[i] for i in order]
    if max(values) > 0:
        assert max(divide_by_group_max(values)) == 1.0


@pytest.mark.parametrize(
    "rewards", [[1.0, 0.85, 0.0, 0.0], [0.0, 1.0], [0.3, 0.3, 0.3], [2.0, -1.5, 0.25, 0.5, 7.0]]
)
def test_advantages_equal_trl(rewards: list[float]) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(rewards, dtype=torch.float64)
    expected = (tensor - tensor.mean()) / (tensor.std() + 1e-4)
    assert group_advantages(rewards) == pytest.approx(expected.tolist(), abs=1e-9)


def test_advantages_by_hand() -> None:
    # mean 0.5; sample deviation sqrt(1/3)
    expected = 0.5 / ((1 / 3) ** 0.5 + 1e-4)
    assert group_advantages([1.0, 0.0, 0.0, 1.0]) == pytest.approx(
        [expected, -expected, -expected, expected]
    )
    assert group_advantages([1.0, 0.0], "none") == [0.5, -0.5]
    assert group_advantages([1.0, 0.0], epsilon=1.0)[0] == pytest.approx(0.5 / (0.5**0.5 + 1.0))


def test_a_failed_rollout_moves_nobody() -> None:
    with_failure = group_advantages([1.0, None, 0.0, 0.5])
    assert with_failure[1] == 0.0
    assert with_failure[:1] + with_failure[2:] == group_advantages([1.0, 0.0, 0.5])
    assert group_advantages([None, 1.0]) == [0.0, 0.0]
    assert group_advantages([]) == []


def test_bad_rewards_are_an_error() -> None:
    with pytest.raises(ValueError, match="finite"):
        group_advantages([1.0, float("nan")])
    with pytest.raises(ValueError, match="scale"):
        group_advantages([1.0], "batch")  # type: ignore[arg-type]


@given(MIXED, st.sampled_from(["group", "none"]))
def test_advantages_sum_to_zero_and_keep_the_order(rewards: list, scale: str) -> None:
    out = group_advantages(rewards, scale)  # type: ignore[arg-type]
    assert sum(out) == pytest.approx(0.0, abs=1e-8)
    known = [(r, a) for r, a in zip(rewards, out, strict=True) if r is not None]
    assert all(a1 < a2 for r1, a1 in known for r2, a2 in known if r1 < r2)
    assert out[::-1] == group_advantages(rewards[::-1], scale)  # type: ignore[arg-type]
