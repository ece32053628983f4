"""The example of CONTRIBUTING.md, run as it is printed there."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from tests.repository import Repository

PAGE = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")


def block(path: str, language: str) -> str:
    """The code block that follows the line naming `path`."""
    found = re.search(rf"`{re.escape(path)}`:\n\n```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None, path
    return found.group(1)


def test_the_variant_of_the_guide(copy_of_finished: Repository) -> None:
    for path, language in (
        ("stages/distractors/longest.py", "python"),
        ("conf/distractors/longest.yaml", "yaml"),
    ):
        (copy_of_finished.path / path).write_text(block(path, language), encoding="utf-8")
    longline = (sys.executable, "-m", "pipelines.cli")
    copy_of_finished.run(*longline, "params", "compose", "distractors=longest")
    assert "longest" in copy_of_finished.run(*longline, "variants", "distractors").stdout
    copy_of_finished.run("dvc", "repro", "--single-item", "distractors")
    rows = copy_of_finished.run(
        *longline, "sql", "--format", "json",
        "select distinct unnest(documents).role as role from contexts where view = 'long'",
    ).stdout  # fmt: skip
    assert {json.loads(line)["role"] for line in rows.splitlines()} == {"gold", "filler"}
