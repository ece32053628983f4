"""A container's limit of memory, in both versions of control groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from stages.llm import memory
from stages.llm.container import container_free

V2 = {
    "memory.max": "1000\n",
    "memory.current": "700\n",
    "memory.stat": "anon 5\ninactive_file 50\n",
}
V1 = {
    "memory/memory.limit_in_bytes": "1000\n",
    "memory/memory.usage_in_bytes": "700\n",
    "memory/memory.stat": "inactive_file 1\ntotal_inactive_file 50\n",
}


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "free"),
    [
        (V2, 350),
        (V1, 350),
        (V2 | {"memory.stat": ""}, 300),
        (V2 | {"memory.current": "2000"}, 0),
        (V2 | {"memory.max": "max\n"}, None),
        ({}, None),
        ({"memory.max": "1000"}, None),
        ({**V1, "memory.max": "max\n"}, 350),
    ],
)
def test_what_is_free(tmp_path: Path, files: dict[str, str], free: int | None) -> None:
    assert container_free(write(tmp_path, files)) == free


def test_the_smaller_one_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "container_free", lambda: 1234)
    assert memory.available("cpu") == 1234
    monkeypatch.setattr(memory, "container_free", lambda: 1 << 60)
    assert memory.available("cpu") < 1 << 60
