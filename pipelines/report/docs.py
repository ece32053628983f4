"""Data Docs: one Great Expectations page a dataset, made readable offline.

Great Expectations' own page loads styles and scripts from six hosts and a logo that reports the
visit. Those are taken out and a small style is put in, so that opening a page contacts nobody. A
page ends with the hash of the validation it shows, and is rendered again only when that changes
(importing Great Expectations takes seconds).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path

from pipelines.report.facts import Workspace

FOLDER = Path("reports") / "data_docs"
_VERSION = "1"
_REMOTE = re.compile(
    r"<script\b[^>]*\bsrc=.*?</script>|<link\b[^>]*>|<img\b[^>]*\bsrc=\"http[^>]*>",
    re.DOTALL | re.IGNORECASE,
)
_INLINE_SCRIPT = re.compile(r"<script\b.*?</script>", re.DOTALL | re.IGNORECASE)
_REMOTE_LINK = re.compile(r"<a\b[^>]*\bhref=\"(?:http|\.\./\.\./)[^>]*>(.*?)</a>", re.DOTALL)
_HANDLER = re.compile(r'\son\w+="[^"]*"')
_STYLE = """<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem }
table { border-collapse: collapse; display: block; overflow-x: auto }
td, th { border-bottom: 1px solid #8886; padding: .3rem .6rem; text-align: left;
  vertical-align: top }
i.fa-check-circle::before { content: "✓" } i.fa-times::before { content: "✗" }
i.fa-exclamation-triangle::before { content: "!" }
nav, .navbar, button, .modal, footer, .alert-dismissible, .ge-navigation-toggle, .card,
a[data-toggle=collapse] { display: none }
</style></head>"""


def write_data_docs(workspace: Workspace) -> list[str]:
    """Write the page of each dataset that has a validation; returns the datasets, in order."""
    folder = workspace.root / FOLDER
    written = []
    for name, dataset in workspace.datasets.items():
        source = dataset.folder / "_validation.json"
        if not source.exists():
            continue
        text = source.read_text(encoding="utf-8")
        mark = f"<!-- longline {_VERSION} {hashlib.sha256(text.encode()).hexdigest()} -->\n"
        target = folder / f"{name}.html"
        if not (target.exists() and target.read_text(encoding="utf-8").endswith(mark)):
            write_text(target, _page(text) + mark)
        written.append(name)
    for page in folder.glob("*.html"):
        if page.stem not in written:
            page.unlink()
    return written


def write_text(path: Path, text: str) -> None:
    """Write a file in one step: a reader sees the old one or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    work = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        work.write_text(text, encoding="utf-8")
        os.replace(work, path)
    finally:
        work.unlink(missing_ok=True)


def _page(validation: str) -> str:
    from schemas.checks import render_data_docs

    return offline(render_data_docs(json.loads(validation)))


def offline(page: str) -> str:
    """The page without anything that another host would have to deliver."""
    page = _INLINE_SCRIPT.sub("", _REMOTE.sub("", page))
    page = _HANDLER.sub("", _REMOTE_LINK.sub(r"\1", page))
    back = '<body><p><a href="../index.html">Back to the report</a></p>'
    page = re.sub(r"<body\b[^>]*>", back, page, count=1)
    return page.replace("</head>", _STYLE, 1)
