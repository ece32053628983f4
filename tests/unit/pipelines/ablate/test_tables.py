from __future__ import annotations

import csv
import io
import math
import re

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from pipelines.ablate import tables
from pipelines.ablate.results import CellResult, Summary, summarise
from tests.unit.pipelines.ablate.conftest import BASE, HOSTILE, OTHER, grid


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def printed(summary: Summary, width: int = 160) -> str:
    console = Console(width=width, file=io.StringIO(), color_system=None)
    tables.print_summary(summary, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_terminal(summary: Summary) -> None:
    text = printed(summary)
    assert "2 arms differ in distractors (tiered, random)" in text
    assert "0.520 [0.470, 0.570]" in text
    assert "+0.100 [0.050, 0.150]" in text
    assert re.search(r"distractors=tiered │ +3 │ +3 │ +0 │ +0 │ +150 │ +20\.0 s", text)
    assert "unknown" in text
    assert "…" not in printed(summary, 60)


def test_terminal_prints_hostile_names_as_they_are(hostile: list[CellResult]) -> None:
    text = printed(summarise(hostile, hostile[0].settings, [HOSTILE]), 2000)
    assert "\x1b" not in text and "[31m**b**" in text and "[c](d)" in text


def test_results_csv_has_a_row_for_each_arm_and_metric(summary: Summary) -> None:
    base, other = read(tables.results_csv(summary))
    assert base["setting.distractors"] == "tiered" and base["baseline"] == "yes"
    assert float(base["mean"]) == summary.arms[0].measures[0].estimate.value
    assert base["verdict"] == base["difference"] == "" and base["tokens"] == "150.0"
    assert other["verdict"] == "higher" and other["pairs"] == "3" and other["seconds"] == ""
    found = summary.arms[1].measures[0].difference
    assert found is not None and float(other["difference_low"]) == found.estimate.low


def test_results_csv_says_more_than_the_cap() -> None:
    results = grid([0.5, 0.5], [0.9, 0.101])
    row = read(tables.results_csv(summarise(results, BASE, ["evaluate.reward"])))[1]
    assert row["verdict"] == "cannot tell" and row["seeds_needed"] == ">1000"


def test_cells_csv_has_every_metric_of_every_cell() -> None:
    results = [
        CellResult("a", BASE, {"seed.train": "0"}, "done", {"policy.x": 1.5}, 2.5, 7),
        CellResult(
            "b", OTHER | {"policy.x": "3"}, {}, "failed", {"y": math.nan}, None, None, "no, |"
        ),
    ]
    one, two = read(tables.cells_csv(results))
    assert list(one) == ["name", "status", "setting.distractors", "setting.policy.x", "seed.train",
                         "seconds", "tokens", "error", "metric.policy.x", "metric.y"]  # fmt: skip
    assert list(one.values()) == ["a", "done", "tiered", "", "0", "2.5", "7", "", "1.5", ""]
    assert list(two.values()) == ["b", "failed", "random", "3", "", "", "", "no, |", "", "nan"]


def test_csv_of_hostile_names(hostile: list[CellResult]) -> None:
    summary = summarise(hostile, hostile[0].settings, [HOSTILE])
    assert len(read(tables.results_csv(summary))) == 2
    rows = read(tables.cells_csv(hostile))
    assert len(rows) == 6 and all(None not in row for row in rows)
    tables.cells_csv(hostile).encode()


def test_markdown(summary: Summary, results: list[CellResult]) -> None:
    text = tables.markdown("my_grid", summary, results, "longline ablate \\\n  -S a=b", ["Note."])
    assert text.startswith("# Ablation my_grid\n\n2 arms differ")
    row = "| distractors=random | 0.620 [0.534, 0.706] | 3 | +0.100 [0.050, 0.150] | 3 | higher |"
    assert row in text
    assert "\n- Note.\n" in text
    assert "```\nlongline ablate \\\n  -S a=b\n```" in text
    assert "| tiered-0 | distractors=tiered | seed.train=0 | done | 100 | 10.0 s |" in text


def test_markdown_tables_keep_their_columns(hostile: list[CellResult]) -> None:
    summary = summarise(hostile, hostile[0].settings, [HOSTILE])
    text = tables.markdown(HOSTILE, summary, hostile, f"{HOSTILE}\n````", [HOSTILE])
    text.encode()
    body = text[: text.index("## How")]
    counts = [len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in body.splitlines()
              if line.startswith("|")]  # fmt: skip
    assert counts == [7] * 4 + [8] * 4 + [7] * 8
    assert not re.search(r"(?<!\\)<script", body)
    assert not re.search(r"(?<!\\)\]\(", body)
    assert text.count("\n`````\n") == 2


@given(st.text())
def test_escaped_markdown_is_one_line_and_loses_no_letter(text: str) -> None:
    escaped = tables._md(text)
    assert len(escaped.splitlines()) <= 1
    assert re.sub(r"\\([\\`*\[\]<>|&~#_])", r"\1", escaped) == tables.wording.clean(text)


def test_intervals_stay_readable_unless_they_would_be_links() -> None:
    assert tables._md("+0.1 [0.0, 0.2], [−0.1, −0.05]") == "+0.1 [0.0, 0.2], [−0.1, −0.05]"
    assert tables._md("[0.0, 0.2](x)") == r"\[0.0, 0.2\](x)"
    assert tables._md("a_b _c_") == r"a_b \_c\_"
