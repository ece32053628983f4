from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from pipelines.ablate.page import SECTIONS, render, write_page
from pipelines.ablate.results import CellResult, Summary, summarise
from schemas.errors import UserError
from tests.unit.pipelines.ablate.conftest import BASE, HOSTILE, OTHER, cell
from tests.unit.pipelines.report.test_build import Page

FILES = ["cells.csv", "index.html", "results.csv", "results.md"]


def test_the_page_is_whole_and_needs_nothing_else(
    tmp_path: Path, summary: Summary, results: list[CellResult]
) -> None:
    path = write_page(tmp_path, "grid", summary, results, "longline ablate", ["A note."])
    assert path == tmp_path / "grid" / "index.html"
    assert sorted(os.listdir(tmp_path / "grid")) == FILES
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert {section for section, _ in SECTIONS} <= set(page.ids)
    assert text.count("<svg") == 2 and "<script" not in text
    assert "http" not in text and "@import" not in text
    assert "url(" not in re.sub(r"url\(#[\w-]+\)", "", text)
    others = {link for link in page.links if not link.startswith("#")}
    assert others == {"data:,", "results.csv", "cells.csv", "results.md"}
    for said in ("2 arms differ", "is higher with distractors=random", "dvc exp apply tiered-0",
                 "A note.", "longline ablate"):  # fmt: skip
        assert said in text


def test_the_same_results_give_the_same_bytes(
    tmp_path: Path, summary: Summary, results: list[CellResult]
) -> None:
    def written() -> dict[str, bytes]:
        folder = write_page(tmp_path, "grid", summary, results, "how").parent
        return {name: (folder / name).read_bytes() for name in FILES}

    assert written() == written()


def test_hostile_text_is_escaped(tmp_path: Path, hostile: list[CellResult]) -> None:
    summary = summarise(hostile, hostile[0].settings, [HOSTILE])
    path = write_page(tmp_path, "grid", summary, hostile, HOSTILE, [HOSTILE])
    text = path.read_text(encoding="utf-8")
    assert "<script" not in text and "\x1b" not in text
    assert text.count("&lt;script&gt;") > 20
    page = Page(text)
    assert page.open == [] and len(page.ids) == len(set(page.ids))


@pytest.mark.parametrize(
    "results",
    [
        [cell(BASE, "0", status="failed", error="no memory"), cell(OTHER, "0", status="not run")],
        [cell(BASE, "0", status="failed"), cell(OTHER, "0", 0.5), cell(OTHER, "1", 0.6)],
        [cell(BASE, None, 0.5), cell(OTHER, None, 0.5)],
        [cell(BASE, "0", 0.5)],
        [cell({}, "0", 1e150), cell({}, "1", -1e150), cell(OTHER, "0", 0.0)],
    ],
)  # fmt: skip
def test_degenerate_results_have_a_page(results: list[CellResult]) -> None:
    summary = summarise(results, results[0].settings, ["evaluate.reward"])
    text = render("grid", summary, results, "how")
    assert Page(text).open == []
    assert "nan" not in re.findall(r">([^<]*)<", text)


@pytest.mark.parametrize("name", ["", " ", "..", ".hidden", "a/b", "a\\b", "a\0b", "a\nb"])
def test_a_name_that_leaves_the_folder(
    tmp_path: Path, name: str, summary: Summary, results: list[CellResult]
) -> None:
    with pytest.raises(UserError, match="not a name for an ablation"):
        write_page(tmp_path, name, summary, results, "how")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("what", ["write_text", "replace"])
def test_a_full_disk_leaves_the_old_files(
    tmp_path: Path, summary: Summary, results: list[CellResult], what: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    folder = write_page(tmp_path, "grid", summary, results, "old").parent
    before = {name: (folder / name).read_bytes() for name in FILES}

    def no_space(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os if what == "replace" else Path, what, no_space)
        with pytest.raises(OSError, match="No space"):
            write_page(tmp_path, "grid", summary, results, "new")
    assert {name: (folder / name).read_bytes() for name in os.listdir(folder)} == before
