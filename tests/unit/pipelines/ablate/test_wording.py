from __future__ import annotations

import math

import pytest

from pipelines.ablate import wording
from pipelines.ablate.results import CellResult, Summary, summarise
from pipelines.report.estimates import Estimate
from tests.unit.pipelines.ablate.conftest import BASE, HOSTILE, OTHER, cell, grid

METRIC = "evaluate.reward"


def test_what_differs(summary: Summary) -> None:
    assert wording.what_differs(summary) == [
        "2 arms differ in distractors (tiered, random). The baseline is distractors=tiered.",
        "Seeds: seed.train 0, 1, 2.",
        "All 6 cells finished.",
    ]
    assert wording.labels(summary) == ("distractors=tiered", "distractors=random")


def test_what_is_the_same_is_said_once() -> None:
    results = [
        cell({"profile": "tiny", "a": "1"}, None, 0.1), cell({"profile": "tiny"}, None, 0.2),
        cell({"profile": "tiny", "b": "2"}, None, status="not run"),
    ]  # fmt: skip
    found = summarise(results, {"profile": "tiny"}, [METRIC])
    assert wording.labels(found) == ("a=1", "as configured", "b=2")
    assert wording.what_differs(found) == [
        "3 arms differ in a (1, not set) and b (not set, 2). The baseline is as configured.",
        "The same in all: profile=tiny.",
        "No seed was varied: each arm is one run, and one run cannot say how runs vary.",
        "3 cells: 2 finished, 0 failed, 1 not run.",
    ]


def test_one_arm() -> None:
    found = summarise([cell(BASE, "0", 0.5)], BASE, [METRIC])
    assert wording.what_differs(found)[0] == (
        "There is one arm, the baseline (distractors=tiered), so there is nothing to compare."
    )
    assert wording.what_differs(found)[-1] == "The one cell finished."
    assert wording.told(found) == []
    assert wording.cautions(found) == []


def test_what_can_be_told_comes_first(summary: Summary) -> None:
    assert wording.told(summary) == [(
        "higher",
        "evaluate.reward is higher with distractors=random than with the baseline: "
        "+0.100 [0.050, 0.150], 3 pairs.",
    )]  # fmt: skip
    results = [
        CellResult(f"{s}{i}", {"s": s}, {"seed": str(i)}, "done", {"x": x, "y": y}, None, None)
        for s, values in (("a", [(0.1, 0.1), (0.2, 0.2)]), ("b", [(0.9, 0.5), (0.1, 0.6)]))
        for i, (x, y) in enumerate(values)
    ]
    found = wording.told(summarise(results, {"s": "a"}, ["x", "y"]))
    assert [verdict for verdict, _ in found] == ["higher", "cannot tell"]
    assert found[1][1].endswith("2 pairs; would need about 16 seeds.")


@pytest.mark.parametrize(
    ("results", "reason"),
    [
        ([cell(BASE, "0", status="failed"), cell(OTHER, "0", 0.5)], "the baseline has no value"),
        ([cell(BASE, "0", 0.5), cell(OTHER, "0", status="failed")], "it has no value"),
        ([cell(BASE, "0", 0.5), cell(OTHER, "1", 0.6)], "it has no seed in common with the"),
        (grid([0.5], [0.75]), "one pair (+0.250) gives no interval"),
    ],
)  # fmt: skip
def test_why_there_are_too_few_seeds(results: list[CellResult], reason: str) -> None:
    ((verdict, sentence),) = wording.told(summarise(results, BASE, [METRIC]))
    assert verdict == "too few seeds"
    assert reason in sentence


def test_verdicts_in_a_table(summary: Summary) -> None:
    assert wording.verdict_words(summary.arms[0].measures[0].difference) == "baseline"
    assert wording.verdict_words(summary.arms[1].measures[0].difference) == "higher"

    def words(base: list[float], other: list[float]) -> str:
        found = summarise(grid(base, other), BASE, [METRIC])
        return wording.verdict_words(found.arms[1].measures[0].difference)

    assert words([0.5], [0.6]) == "too few seeds (1 pair)"
    assert words([0.5, 0.6], [0.5, 0.6]) == "cannot tell (no difference seen)"
    assert words([0.5] * 3, [0.6, 0.45, 0.54]) == "cannot tell (would need about 27 seeds)"
    assert words([0.5, 0.5], [0.9, 0.101]) == "cannot tell (would need more than 1000 seeds)"


def test_several_intervals_are_said_to_be_several(summary: Summary) -> None:
    assert wording.cautions(summary) == []
    results = [
        cell({"s": s}, str(i), value + (-1) ** i * 0.001)
        for s, value in (("a", 0.5), ("b", 0.5), ("c", 0.9))
        for i in range(2)
    ]
    results[2] = cell({"s": "b"}, "0", 0.55)
    (said,) = [line for line in wording.cautions(summarise(results, {"s": "a"}, [METRIC]))
               if "intervals" in line]  # fmt: skip
    assert said == (
        "2 intervals of differences are shown; 1 excludes 0. About 1 in 20 misses the "
        "true difference by chance: if no setting changed anything, about 0.1 of 2 would still "
        "exclude 0."
    )


def test_lost_cells_are_said() -> None:
    results = [
        cell(BASE, "0", 0.5), cell(BASE, "1", status="failed"), cell(BASE, "2", status="not run"),
        cell(OTHER, "0", math.nan), cell({}, "0", status="failed"),
    ]  # fmt: skip
    assert wording.cautions(summarise(results, BASE, [METRIC])) == [
        "distractors=tiered: of 3 cells, 1 failed and 1 did not run; its numbers are of those "
        "that finished.",
        "distractors=random: evaluate.reward is absent or not a number in 1 of 1 finished cell.",
        "as configured: of 1 cell, 1 failed; it has no numbers.",
    ]


@pytest.mark.parametrize(
    ("base", "other", "said"),
    [
        ([0.5, 0.5], [0.5, 0.5], "is the same for every seed in every arm: the seed may not"),
        ([0.5, 0.6], [0.7, 0.7], "is the same for every seed in distractors=random: the seed"),
        ([0.5, 0.6], [0.6, 0.7], "differs from the baseline by the same amount for every seed"),
        ([0.5, 0.6], [0.5, 0.6], "equals the baseline's for every seed in distractors=random"),
    ],
)  # fmt: skip
def test_intervals_without_width_are_said(base: list[float], other: list[float], said: str) -> None:
    (line,) = wording.cautions(summarise(grid(base, other), BASE, [METRIC]))
    assert said in line


def test_enough_decimals() -> None:
    def digits(base: list[float], other: list[float]) -> int:
        return wording.decimals(summarise(grid(base, other), BASE, [METRIC]), METRIC)

    assert digits([0.5, 0.6], [0.6, 0.8]) == 3
    assert digits([0.50001, 0.50002], [0.50003, 0.50004]) == 6
    assert digits([5000.0, 6000.0], [6000.0, 7100.0]) == 1
    assert digits([0.0], [0.0]) == 3
    # "higher" by 0.0498 ± 0.0497: with three decimals the interval would read as [0.000, 0.099]
    assert digits([0.0, 0.0, 0.0], [0.0298, 0.0498, 0.0698]) == 5


def test_amounts() -> None:
    assert wording.amount(Estimate(0.5, 0.4, 0.6, 3), 3) == "0.500 [0.400, 0.600]"
    assert wording.amount(Estimate(-0.5, -0.6, -0.4, 3), 1, signed=True) == "−0.5 [−0.6, −0.4]"
    assert wording.amount(Estimate(0.5, None, None, 1), 2) == "0.50 (1 seed, no interval)"
    assert wording.amount(Estimate(None, None, None, 0), 2) == "no value"


def test_clean_leaves_nothing_that_steers_a_terminal() -> None:
    text = wording.clean(HOSTILE)
    assert text.isprintable()
    text.encode()
    assert wording.clean_lines("a \\\n  b\x1b[0m\r\n\tc ") == "a \\\n  b[0m\n    c"
