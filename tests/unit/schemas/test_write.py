"""Writing: byte-stable shards, quarantine, rules, and an accounting that always holds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.contract import Contract
from schemas.duck import connect, quoted
from schemas.errors import UserError
from schemas.ids import content_id
from schemas.read import Dataset
from schemas.write import DatasetWriter
from tests.unit.schemas.conftest import Write, thing


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def quarantine(folder: Path) -> list[tuple[Any, ...]]:
    """(key, rule, source, content as JSON), in the order of the file."""
    file = quoted(folder / "_quarantine" / "part-00000.parquet")
    with connect() as connection:
        return connection.execute(
            f"SELECT key, rule, source, content FROM read_parquet({file})"
        ).fetchall()


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    numbers=st.lists(st.integers(0, 110), max_size=120),
    notes=st.lists(st.none() | st.text(st.characters(codec="utf-8"), max_size=9), min_size=1),
    random=st.randoms(use_true_random=False),
)
def test_the_same_rows_give_the_same_bytes_in_any_order(
    write: Write, tmp_path: Path, numbers: list[int], notes: list[str | None], random: Any
) -> None:
    rows = [
        {"id": content_id(index), "n": n, "note": notes[index % len(notes)]}
        for index, n in enumerate(numbers)
    ]
    found = []
    for _ in range(2):
        shutil.rmtree(tmp_path / "things", ignore_errors=True)
        try:
            write(rows)
        except UserError as error:
            found.append({"error": str(error).encode()})
        else:
            found.append(files(tmp_path / "things"))
        random.shuffle(rows)
    assert found[0] == found[1]


def test_one_more_row_changes_one_shard(write: Write, tmp_path: Path) -> None:
    write((thing(i) for i in range(300)), "before")
    write((thing(i) for i in range(301)), "after")
    before, after = (Dataset.open(tmp_path / name).meta["shards"] for name in ("before", "after"))
    assert len(before) == len(after) == 8
    assert sum(one != other for one, other in zip(before, after, strict=True)) == 1


def test_shards_are_ranges_of_the_key(write: Write, tmp_path: Path) -> None:
    write(thing(i) for i in range(300))
    dataset = Dataset.open(tmp_path / "things")
    ids = []
    for file in dataset.files():
        with connect() as connection:
            rows = connection.execute(f"SELECT id FROM read_parquet({quoted(file)})").fetchall()
        ids += [row[0] for row in rows]
    assert ids == sorted(content_id(i) for i in range(300))
    assert [shard["rows"] for shard in dataset.meta["shards"]].count(0) == 0


def test_nothing_but_the_dataset_is_left(write: Write, tmp_path: Path) -> None:
    write([thing(1)])
    assert set(files(tmp_path / "things")) == {
        "_meta.json", "_validation.json", "part-00000.parquet", "_quarantine/part-00000.parquet",
    }  # fmt: skip


def test_the_first_row_of_a_key_is_kept(write: Write, tmp_path: Path) -> None:
    result = write([thing(1, n=5), thing(2), thing(1, n=6), thing(1, n=7)], rows_in=4)
    assert result.quarantined == {"key_unique": 2}
    rows = list(Dataset.open(tmp_path / "things").rows())
    assert [row["n"] for row in rows if row["id"] == content_id(1)] == [5]
    assert [json.loads(row[3])["n"] for row in quarantine(tmp_path / "things")] == [6, 7]


def test_quarantined_rows_are_kept_whole_under_one_rule(write: Write, tmp_path: Path) -> None:
    bad = thing(1, n=200, note='l\'été "1"')
    result = write([bad, thing(2), thing(3), thing(3, n=300)])
    assert result.quarantined == {"key_unique": 1, "n_below_100": 1}
    assert result.rows == 2
    found = {rule: (key, json.loads(row)) for key, rule, _, row in quarantine(tmp_path / "things")}
    assert found["n_below_100"] == (bad["id"], bad)


@pytest.mark.parametrize("bad", [5, 6])
def test_over_the_bound_the_stage_stops_with_an_example(write: Write, bad: int) -> None:
    rows = [thing(i, n=100 if i < bad else 1) for i in range(10)]
    if bad == 5:
        assert write(rows).quarantined == {"n_below_100": 5}
        return
    with pytest.raises(UserError, match="6 of 10 rows break quarantine rules") as caught:
        write(rows)
    first = min(content_id(i) for i in range(bad))
    assert f"First: {first}: n is 100 or more (rule n_below_100)" in str(caught.value)
    assert "allows a share of 0.5" in str(caught.value)
    assert "schemas/contracts/things.yaml" in (caught.value.fix or "")


def test_a_fail_rule_stops_the_stage(write: Write) -> None:
    with pytest.raises(UserError, match="n is negative") as caught:
        write([thing(1), thing(2, n=-1)])
    assert "1 of 2 rows, rule n_not_negative" in str(caught.value)


def test_a_table_rule_stops_the_stage_and_speaks_of_no_rows(write: Write) -> None:
    with pytest.raises(UserError, match=r"thirteen things \(rule not_13\)"):
        write(thing(i) for i in range(13))


def test_warnings_are_counted_and_stop_nothing(write: Write) -> None:
    result = write([thing(1, note="too long"), thing(2), thing(3, note=None)])
    counted = {found.rule.name: (found.broken, found.passed) for found in result.rules}
    assert result.rows == 3
    assert counted["note_short"] == (2, True)  # a null flag is a broken rule
    assert counted["many"] == (1, True)
    assert counted["n_below_100"] == (0, True)


def test_null_in_a_column_that_may_not_be_null_is_quarantined(write: Write) -> None:
    result = write([thing(1, n=None), thing(2)])
    assert result.quarantined == {"n_not_null": 1}


def test_an_accounting_that_does_not_add_up_is_a_defect(write: Write) -> None:
    with pytest.raises(RuntimeError, match=r"3 in, but 2 out \+ 0 quarantined \+ 0 dropped = 2"):
        write([thing(1), thing(2)], rows_in=3)


def test_dropped_and_rejected_inputs_are_counted(things: Contract, tmp_path: Path) -> None:
    writer = DatasetWriter(things, tmp_path / "things")
    for number in range(4):
        writer.add(thing(number))
    writer.drop("empty", 2)
    writer.drop("empty")
    writer.reject(source="a.jsonl:7", rule="not_json", reason="no JSON", content="{oops")
    result = writer.finish(rows_in=8)
    assert result.accounting() == {
        "in": 8, "out": 4, "quarantined": {"not_json": 1}, "dropped": {"empty": 3},
    }  # fmt: skip
    assert Dataset.open(tmp_path / "things").meta["accounting"] == result.accounting()
    assert quarantine(tmp_path / "things") == [(None, "not_json", "a.jsonl:7", "{oops")]


def test_rejected_inputs_count_against_the_bound(things: Contract, tmp_path: Path) -> None:
    writer = DatasetWriter(things, tmp_path / "things")
    writer.add(thing(1))
    for line in (8, 7):
        writer.reject(source=f"a:{line}", rule="not_json", reason="no JSON", content="")
    with pytest.raises(UserError, match="2 of 3 rows") as caught:
        writer.finish(rows_in=3)
    assert "First: a:7: no JSON (rule not_json)" in str(caught.value)
    writer.close()


@pytest.mark.parametrize("row", [{"id": "1", "n": 1}, {"id": "1", "n": 1, "note": None, "more": 1}])
def test_a_row_with_other_fields_is_a_defect(write: Write, row: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="note" if "more" not in row else "more"):
        write([row])


@pytest.mark.parametrize("value", ["many", 1 << 70])
def test_a_value_of_another_type_names_the_dataset(write: Write, value: object) -> None:
    with pytest.raises(ValueError, match="things: "):
        write([thing(1, n=value)])


def test_no_rows_at_all(write: Write, tmp_path: Path) -> None:
    assert write([]).rows == 0
    dataset = Dataset.open(tmp_path / "things")
    assert dataset.row_count == 0
    assert list(dataset.rows()) == []


def test_many_rows_pass_through_in_batches(write: Write, tmp_path: Path) -> None:
    result = write(thing(i, note="x" * (i % 6)) for i in range(2_500))
    assert result.rows == 2_500
    total = sum(len(row["note"]) for row in Dataset.open(tmp_path / "things").rows())
    assert total == sum(i % 6 for i in range(2_500))
