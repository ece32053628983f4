"""The report's table of model calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.report.build import write_report
from pipelines.report.facts import Workspace
from pipelines.report.models import model_calls

CALLS = {
    "requests": 100, "kept": 20, "asked": 80, "repaired": 3, "prompt_tokens": 9000,
    "cached_tokens": 6000, "computed_tokens": 3000, "unique_tokens": 2500,
    "completion_tokens": 1000, "seconds": 4.0, "statuses": {"ok": 98, "timeout": 2},
}  # fmt: skip


def log(root: Path, *runs: dict[str, Any]) -> None:
    file = root / ".longline" / "runs.jsonl"
    file.parent.mkdir()
    file.write_text("".join(json.dumps(run) + "\n" for run in runs))


def test_calls_of_the_last_good_run(workspace_copy: Path) -> None:
    log(
        workspace_copy,
        {"stage": "judge", "status": "ok", "llm": {**CALLS, "asked": 1}},
        {"stage": "judge", "status": "ok", "llm": CALLS, "cost": 1.25},
        {"stage": "judge", "status": "failed", "llm": {**CALLS, "asked": 2}},
        {"stage": "corpus", "status": "ok"},
        {"stage": "candidates", "status": "ok", "llm": {"requests": 5, "kept": 5}},
    )
    candidates, judge = model_calls(Workspace.open(workspace_copy))
    assert (judge.stage, judge.asked, judge.cost) == ("judge", 80, 1.25)
    assert judge.computed_over_unique == pytest.approx(1.2)
    assert judge.tokens_per_second == 2500
    assert (candidates.computed_over_unique, candidates.tokens_per_second) == (None, None)
    page = write_report(workspace_copy).read_text(encoding="utf-8")
    assert "Computed over unique" in page and "timeout 2" in page and "1.25" in page
    assert "unknown" in page


def test_a_report_without_calls(workspace_copy: Path) -> None:
    assert model_calls(Workspace.open(workspace_copy)) == []
    assert "Computed over unique" not in write_report(workspace_copy).read_text(encoding="utf-8")
