from __future__ import annotations

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pipelines.report.build import SECTIONS, write_report
from pipelines.report.docs import offline, write_text
from schemas.errors import UserError
from tests.unit.pipelines.report.conftest import HOSTILE

VOID = {"meta", "link", "br", "img", "hr", "input", "path", "rect", "use"}


class Page(HTMLParser):
    """Collects ids, links and remote references, and checks that elements close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        if "id" in values:
            self.ids.append(values["id"] or "")
        for name in ("href", "src"):
            if name in values:
                self.links.append(values[name] or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag, (tag, self.getpos())


@pytest.fixture(scope="module")
def built(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("built") / "root"
    shutil.copytree(finished, root)
    assert write_report(root) == root / "reports" / "index.html"
    return root


@pytest.fixture(scope="module")
def text(built: Path) -> str:
    return (built / "reports" / "index.html").read_text(encoding="utf-8")


def test_text_of_data_and_models_is_escaped(text: str) -> None:
    assert HOSTILE not in text
    assert "<script" not in text
    # recipe, question, answer, document title and text, model answers, rollouts
    assert text.count("&lt;script&gt;") > 20


def test_data_docs_hold_no_script(built: Path) -> None:
    pages = sorted((built / "reports" / "data_docs").glob("*.html"))
    assert [page.stem for page in pages] == [
        "chunks", "contexts", "documents", "evaluations", "questions", "rollouts",
    ]  # fmt: skip
    for page in pages:
        html = page.read_text(encoding="utf-8")
        assert not re.search(r"<script|<link|<img|(src|href)=.http", html)
        assert "text_not_empty" in html or page.stem != "documents"


def test_the_page_is_whole_and_needs_nothing_else(text: str) -> None:
    page = Page(text)
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert "http" not in text
    for section, _ in SECTIONS:
        assert section in page.ids
    inside = [link[1:] for link in page.links if link.startswith("#")]
    assert set(inside) <= set(page.ids)
    others = {link for link in page.links if not link.startswith("#")}
    assert all(link == "data:," or link.startswith("data_docs/") for link in others)
    assert "@import" not in text
    assert "url(" not in re.sub(r"url\(#[\w-]+\)", "", text)


def test_the_same_inputs_give_the_same_bytes(built: Path, text: str) -> None:
    before = {p: p.stat().st_mtime_ns for p in (built / "reports" / "data_docs").iterdir()}
    write_report(built)
    assert (built / "reports" / "index.html").read_text(encoding="utf-8") == text
    # Data Docs of unchanged validations are not rendered again.
    assert {p: p.stat().st_mtime_ns for p in before} == before


def test_nothing_to_report(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="dvc repro"):
        write_report(tmp_path)


def test_stages_that_have_not_run_say_so(workspace_copy: Path) -> None:
    for dataset in ("questions", "contexts", "evaluations", "rollouts"):
        shutil.rmtree(workspace_copy / "data" / dataset)
    (workspace_copy / "reports" / "evaluate.json").unlink()
    text = write_report(workspace_copy).read_text(encoding="utf-8")
    assert text.count("dvc repro evaluate") == 3  # headline, evaluation, samples
    assert "dvc repro policy" in text
    assert "Tokens a document" in text


def test_without_params_and_pipeline(workspace_copy: Path) -> None:
    (workspace_copy / "params.yaml").unlink()
    (workspace_copy / "dvc.yaml").unlink()
    text = write_report(workspace_copy).read_text(encoding="utf-8")
    assert "longline params compose" in text
    assert Page(text).open == []


def test_metrics_without_datasets(workspace_copy: Path) -> None:
    shutil.rmtree(workspace_copy / "data")
    text = write_report(workspace_copy).read_text(encoding="utf-8")
    assert "Policy reward" in text


def test_a_changed_shard_is_not_reported_on(workspace_copy: Path) -> None:
    shard = workspace_copy / "data" / "evaluations" / "part-00000.parquet"
    shard.write_bytes(shard.read_bytes() + b"x")
    with pytest.raises(UserError, match="cannot be trusted"):
        write_report(workspace_copy)


def test_a_failed_write_leaves_the_old_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "index.html"
    write_text(target, "old")

    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pipelines.report.docs.os.replace", no_space)
    with pytest.raises(OSError, match="No space"):
        write_text(target, "new")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_offline_takes_out_remote_parts() -> None:
    page = (
        '<head><link href="https://a/b.css"><script src="https://a/b.js"></script></head>'
        '<body class="x" onload="run()"><img src="https://a/logo.png"><a href="https://a/news">news</a>'
        '<a href="#one">one</a><script>run()</script></body>'
    )
    clean = offline(page)
    assert "https" not in clean
    assert "script" not in clean
    assert "run()" not in clean
    assert 'href="#one"' in clean
    assert "news" in clean
