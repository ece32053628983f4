"""Views over every dataset and its quarantine."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from schemas.catalog import open_catalog, write_catalog
from schemas.errors import UserError
from tests.unit.schemas.conftest import Write, thing


@pytest.fixture
def data(write: Write, tmp_path: Path) -> Path:
    write([thing(1), thing(2), thing(3, n=500)], "data/things")
    write((thing(i) for i in range(120)), "data/it's")
    (tmp_path / "data" / "half").mkdir()  # no _meta.json: not published
    return tmp_path / "data"


def test_a_view_for_each_dataset_and_quarantine(data: Path) -> None:
    with open_catalog(data) as connection:
        names = [row[0] for row in connection.execute("SHOW TABLES").fetchall()]
        assert names == ["it's", "it's_quarantine", "things", "things_quarantine"]
        assert connection.execute('SELECT count(*) FROM "it\'s"').fetchall() == [(120,)]
        rules = connection.execute("SELECT rule FROM things_quarantine").fetchall()
        assert rules == [("n_below_100",)]


def test_a_file_of_views_works_from_any_folder(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "c.duckdb"
    for _ in range(2):  # the second call replaces the first file
        assert len(write_catalog(Path("data"), file)) == 4
    monkeypatch.chdir("/")
    with duckdb.connect(str(file), read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM things").fetchall() == [(2,)]
    assert file.stat().st_size < 2_000_000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.duckdb", "data"]


def test_no_data(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no dataset in") as caught:
        open_catalog(tmp_path / "data")
    assert caught.value.fix == "dvc repro"


def test_a_catalog_never_replaces_another_file(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "thesis.md"
    file.write_text("years of work")
    with pytest.raises(UserError, match="is not a DuckDB file"):
        write_catalog(data, file)
    assert file.read_text() == "years of work"


def test_without_data_the_old_catalog_stays(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "c.duckdb"
    write_catalog(data, file)
    with pytest.raises(UserError):
        write_catalog(tmp_path / "nothing", file)
    assert file.exists()
    assert not list(tmp_path.glob(".c.duckdb*"))


def test_a_catalog_in_no_folder(data: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no folder .*nowhere") as caught:
        write_catalog(data, tmp_path / "nowhere" / "c.duckdb")
    assert caught.value.fix == f"mkdir -p {tmp_path / 'nowhere'}"


@pytest.mark.parametrize("content", [None, b"", b"PAR1 and no more"])
def test_a_shard_that_cannot_be_read(data: Path, content: bytes | None) -> None:
    shard = data / "things" / "part-00000.parquet"
    shard.unlink()
    if content is not None:
        shard.write_bytes(content)
    with pytest.raises(UserError, match="things cannot be trusted") as caught:
        open_catalog(data)
    assert f"dvc checkout {data / 'things'}" in (caught.value.fix or "")
