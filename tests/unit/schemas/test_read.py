"""Reading: what was written comes back in the order of its key, and damage is never read."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import UserError
from schemas.ids import content_id
from schemas.read import Dataset
from schemas.write import file_hash
from tests.unit.schemas.conftest import Write, thing


@pytest.fixture
def folder(write: Write, tmp_path: Path) -> Path:
    write((thing(i, note=None if i % 7 == 0 else "é") for i in range(120)), "it's")
    return tmp_path / "it's"


def test_rows_come_back_in_the_order_of_the_key(folder: Path) -> None:
    rows = list(Dataset.open(folder).rows())
    expected = [thing(i, note=None if i % 7 == 0 else "é") for i in range(120)]
    assert rows == sorted(expected, key=lambda row: str(row["id"]))


def test_conditions_columns_and_parameters(folder: Path) -> None:
    dataset = Dataset.open(folder)
    assert list(dataset.rows("n = ?", ["id"], [3])) == [
        {"id": i} for i in sorted([content_id(3), content_id(103)])
    ]
    assert len(list(dataset.rows("note IS NULL"))) == 18


def assert_untrusted(folder: Path, what: str, **options: Any) -> None:
    """Opening or reading fails with a message that names the damage and a fix that restores."""
    with pytest.raises(UserError) as caught:
        list(Dataset.open(folder, **options).rows())
    assert what in str(caught.value)
    fix = caught.value.fix or ""
    assert f"rm -r {shlex.quote(str(folder))} && dvc checkout {shlex.quote(str(folder))}" in fix


def test_one_flipped_byte(folder: Path) -> None:
    shard = Dataset.open(folder).files()[1]
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    assert_untrusted(folder, f"{shard} cannot be trusted: its bytes are not those")


def test_a_cut_shard(folder: Path) -> None:
    shard = Dataset.open(folder).files()[0]
    shard.write_bytes(shard.read_bytes()[:-1])
    assert_untrusted(folder, str(shard))


def test_a_removed_shard(folder: Path) -> None:
    shard = Dataset.open(folder).files()[-1]
    shard.unlink()
    assert_untrusted(folder, f"{shard} cannot be trusted: the shard is missing")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "{}", '{"shards": [1]}', '{"shards": 3}', "\udcff"]
)
def test_a_broken_meta_file(folder: Path, text: str) -> None:
    (folder / "_meta.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert_untrusted(folder, "_meta.json cannot be trusted")


def test_a_shard_that_is_no_parquet(folder: Path) -> None:
    shard = Dataset.open(folder).files()[0]
    shard.write_bytes(b"not parquet at all")
    meta = json.loads((folder / "_meta.json").read_text())
    meta["shards"][0]["sha256"] = file_hash(shard)
    (folder / "_meta.json").write_text(json.dumps(meta))
    assert_untrusted(folder, "cannot be trusted")


def test_a_shard_removed_after_opening(folder: Path) -> None:
    dataset = Dataset.open(folder)
    dataset.files()[0].unlink()
    with pytest.raises(UserError, match="cannot be trusted"):
        list(dataset.rows())


def test_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no dataset at") as caught:
        Dataset.open(tmp_path / "nothing")
    assert "dvc repro" in (caught.value.fix or "")
