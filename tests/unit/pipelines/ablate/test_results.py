from __future__ import annotations

import json
import math
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.ablate.results import (
    Arm,
    CellResult,
    Difference,
    Summary,
    compare,
    natural,
    summarise,
)
from schemas.errors import UserError
from tests.unit.pipelines.ablate.conftest import BASE, OTHER, cell, grid

METRIC = "evaluate.reward"


def difference(found: Summary, arm: int = 1) -> Difference:
    made = found.arms[arm].measures[0].difference
    assert made is not None
    return made


def test_three_seeds_by_hand(summary: Summary) -> None:
    base, other = summary.arms
    assert summary.baseline is base and base.baseline and not other.baseline
    assert base.measures[0].estimate.value == pytest.approx(0.52)
    assert base.measures[0].difference is None
    found = difference(summary)
    # differences 0.10, 0.08, 0.12: sd 0.02, half width 4.30265 * 0.02 / sqrt(3) = 0.0496828
    assert found.estimate.value == pytest.approx(0.10)
    assert found.estimate.low == pytest.approx(0.0503172, abs=1e-6)
    assert found.estimate.high == pytest.approx(0.1496828, abs=1e-6)
    assert [round(value, 9) for _, value in found.pairs] == [0.10, 0.08, 0.12]
    assert found.verdict == "higher" and found.seeds_needed is None
    assert summary.intervals == 1


def test_pairing_sees_what_means_hide() -> None:
    # The arms overlap widely; every pair differs by about 0.01.
    found = difference(summarise(grid([0.1, 0.5, 0.9], [0.089, 0.49, 0.889]), BASE, [METRIC]))
    assert found.verdict == "lower"


def test_cannot_tell_names_the_seeds_it_would_need() -> None:
    found = difference(summarise(grid([0.5, 0.5, 0.5], [0.6, 0.45, 0.54]), BASE, [METRIC]))
    assert found.verdict == "cannot tell"
    assert found.seeds_needed == 27  # as in test_intervals


def test_no_difference_needs_no_number() -> None:
    same = difference(summarise(grid([0.1, 0.2], [0.1, 0.2]), BASE, [METRIC]))
    assert (same.verdict, same.seeds_needed, same.constant) == ("cannot tell", None, True)
    balanced = difference(summarise(grid([0.0, 0.0], [0.25, -0.25]), BASE, [METRIC]))
    assert (balanced.verdict, balanced.seeds_needed) == ("cannot tell", None)
    assert not balanced.constant


def test_equal_differences_say_that_they_are_equal() -> None:
    found = difference(summarise(grid([0.1, 0.2, 0.3], [0.4, 0.5, 0.6]), BASE, [METRIC]))
    assert found.verdict == "higher" and found.constant
    assert found.estimate.low == found.estimate.value == found.estimate.high


def test_one_pair_is_too_few() -> None:
    found = difference(summarise(grid([0.1], [0.2]), BASE, [METRIC]))
    assert found.verdict == "too few seeds"
    assert found.estimate.value == pytest.approx(0.1) and found.estimate.low is None


def test_without_seeds_the_two_runs_are_one_pair() -> None:
    found = summarise([cell(BASE, None, 0.1), cell(OTHER, None, 0.2)], BASE, [METRIC])
    assert found.seeds == ((),)
    assert len(difference(found).pairs) == 1


def test_only_shared_seeds_are_paired() -> None:
    results = [
        cell(BASE, "0", 0.5), cell(BASE, "1", 0.6), cell(BASE, "10", 0.7),
        cell(OTHER, "10", 0.9), cell(OTHER, "0", 0.6), cell(OTHER, "2", 99.0),
    ]  # fmt: skip
    found = summarise(results, BASE, [METRIC])
    assert [seed[0][1] for seed, _ in difference(found).pairs] == ["0", "10"]
    assert found.arms[1].measures[0].estimate.n == 3
    assert [seed[0][1] for seed in found.seeds] == ["0", "1", "2", "10"]


def test_failed_and_missing_cells_are_counted_and_left_out() -> None:
    results = [
        cell(BASE, "0", 0.5), cell(BASE, "1", 0.6),
        cell(OTHER, "0", 0.9, status="failed", seconds=1.0), cell(OTHER, "1", 0.7, seconds=5.0),
        cell(OTHER, "2", status="not run"), cell(OTHER, "3", math.nan), cell(OTHER, "4"),
    ]  # fmt: skip
    arm = summarise(results, BASE, [METRIC]).arms[1]
    assert (arm.cells, arm.done, arm.failed, arm.not_run) == (5, 3, 1, 1)
    assert arm.measures[0].missing == 2
    assert arm.measures[0].estimate.value == 0.7
    assert arm.seconds == 5.0


def test_a_failed_baseline_leaves_nothing_to_compare() -> None:
    results = [cell(BASE, "0", status="failed"), cell(BASE, "1", status="not run"),
               cell(OTHER, "0", 0.5), cell(OTHER, "1", 0.6)]  # fmt: skip
    found = summarise(results, BASE, [METRIC])
    assert found.baseline.measures[0].estimate.value is None
    assert difference(found).verdict == "too few seeds"
    assert difference(found).estimate.value is None
    assert found.intervals == 0


def test_nothing_finished_is_still_a_summary() -> None:
    results = [cell(BASE, "0", status="failed"), cell(OTHER, "0", status="not run")]
    found = summarise(results, BASE, [METRIC])
    assert [arm.measures[0].estimate.n for arm in found.arms] == [0, 0]


def test_only_the_baseline() -> None:
    found = summarise([cell(BASE, "0", 0.5)], BASE, [METRIC])
    assert found.differences == () and found.intervals == 0


def test_cost_is_the_mean_of_what_is_known(summary: Summary) -> None:
    base, other = summary.arms
    assert base.seconds == 20.0 and base.tokens == 150.0
    assert other.seconds is None and other.tokens is None


def test_metrics_keep_their_order_and_come_once() -> None:
    results = [CellResult("a", BASE, {}, "done", {"x": 1.0, "y": 2.0}, None, None)]
    found = summarise(results, BASE, ["y", "x", "y"])
    assert found.metrics == ("y", "x")
    assert found.arms[0].measure("x").estimate.value == 1.0


def test_an_unknown_metric_names_those_there_are() -> None:
    with pytest.raises(UserError, match=r"has the metric reward\n  allowed: evaluate.reward"):
        summarise(grid([0.1], [0.2]), BASE, ["evaluate.reward", "reward"])
    with pytest.raises(UserError, match=r"no metric was named\n  allowed: evaluate.reward"):
        summarise(grid([0.1], [0.2]), BASE, [])


def test_a_metric_that_is_nan_everywhere_is_known() -> None:
    found = summarise(grid([math.nan], [math.nan]), BASE, [METRIC])
    assert found.arms[0].measures[0].missing == 1


def test_an_unknown_baseline_names_the_arms() -> None:
    with pytest.raises(UserError, match="allowed: distractors=random, distractors=tiered"):
        summarise(grid([0.1], [0.2]), {"distractors": "none"}, [METRIC])


def test_the_same_cell_twice() -> None:
    with pytest.raises(UserError, match="tiered-0 and tiered-0 have the same settings and seeds"):
        summarise([cell(BASE, "0", 0.1), cell(BASE, "0", 0.2)], BASE, [METRIC])


def test_an_unknown_status_is_a_defect() -> None:
    with pytest.raises(ValueError, match="'running'"):
        summarise([cell(BASE, "0", status="running")], BASE, [METRIC])


def test_seeds_sort_as_numbers() -> None:
    seeds = [(("seed.train", value),) for value in ("10", "b", "9", "²", "a")]
    assert [seed[0][1] for seed in sorted(seeds, key=natural)] == ["9", "10", "a", "b", "²"]


CELLS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c"]),
        st.integers(0, 4),
        st.one_of(st.floats(-100, 100), st.just(math.nan)),
        st.sampled_from(["done", "done", "done", "failed", "not run"]),
    ),
    min_size=1, max_size=15, unique_by=lambda drawn: drawn[:2],
)  # fmt: skip


def build(drawn: list[tuple[str, int, float, str]]) -> list[CellResult]:
    return [cell({"arm": arm}, str(seed), value, status=status)
            for arm, seed, value, status in drawn]  # fmt: skip


def by_settings(found: Summary) -> dict[str, Arm]:
    return {json.dumps(arm.settings): arm for arm in found.arms}


@settings(deadline=None)
@given(CELLS, st.randoms())
def test_the_order_of_cells_does_not_matter(
    drawn: list[tuple[str, int, float, str]], random: object
) -> None:
    results = build(drawn)
    shuffled = list(results)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one = summarise(results, results[0].settings, [METRIC])
    other = summarise(shuffled, results[0].settings, [METRIC])
    assert by_settings(one) == by_settings(other)
    assert one.seeds == other.seeds


@settings(deadline=None)
@given(CELLS)
def test_every_interval_holds_its_mean_and_verdicts_agree(
    drawn: list[tuple[str, int, float, str]],
) -> None:
    results = build(drawn)
    found = summarise(results, results[0].settings, [METRIC])
    assert sum(arm.cells for arm in found.arms) == len(results)
    for made in found.differences:
        low, value, high = made.estimate.low, made.estimate.value, made.estimate.high
        if made.verdict == "too few seeds":
            assert len(made.pairs) < 2 and low is None and high is None
            continue
        assert low is not None and value is not None and high is not None
        assert low <= value <= high
        expected = "higher" if low > 0 else "lower" if high < 0 else "cannot tell"
        assert made.verdict == expected
        if made.seeds_needed is not None:
            assert made.verdict == "cannot tell" and made.seeds_needed > len(made.pairs)


@given(st.dictionaries(st.integers(0, 9), st.floats(-1e9, 1e9), min_size=1))
def test_an_arm_does_not_differ_from_itself(values: dict[int, float]) -> None:
    own = {(("seed.train", str(seed)),): value for seed, value in values.items()}
    found = compare(own, own)
    assert found.estimate.value == 0.0
    assert found.verdict == ("cannot tell" if len(values) > 1 else "too few seeds")
    assert found.seeds_needed is None


def test_nothing_heavy_is_imported_at_start() -> None:
    code = (
        "import sys, pipelines.ablate.page, pipelines.ablate.results, pipelines.ablate.tables\n"
        "heavy = {'scipy', 'matplotlib', 'jinja2', 'rich', 'duckdb', 'numpy', 'dvc', 'prefect'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
