"""Two clean runs on one machine: byte-identical datasets, bit-equal models, equal metrics."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.repository import Repository, make_repository


def hashes(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for folder in ("data", "models", "reports")
        for path in sorted((root / folder).rglob("*"))
        if path.is_file() and path.name != ".gitignore"
    }


@pytest.mark.slow
def test_two_clean_runs_are_equal(finished: Repository, tmp_path: Path) -> None:
    again = make_repository(tmp_path / "again")
    again.run("dvc", "repro")
    first, second = hashes(finished.path), hashes(again.path)
    assert any(name.endswith(".parquet") for name in first)
    assert any(name.endswith(".safetensors") for name in first)
    assert {name for name in first if first[name] != second.get(name)} == set()
    assert first.keys() == second.keys()
