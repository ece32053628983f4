"""The adapter to DVC: what `dvc repro` would do is compared in tests/functional/test_plan.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.dag.project import Project, _producer


@pytest.mark.parametrize(
    ("path", "stage"),
    [
        ("data/documents", "corpus"),
        ("data/documents/part-00000.parquet", "corpus"),
        ("data", None),
        ("data/documents-old", None),
        ("/data/documents", None),
        ("../inputs", None),
    ],
)
def test_the_stage_that_makes_a_path(path: str, stage: str | None) -> None:
    project = Project(Path(), {}, None, {}, {"data/documents": "corpus"})
    assert _producer(project, path) == stage
