"""Contracts: every file loads, and a broken one says where."""

from __future__ import annotations

import duckdb
import pytest

from schemas.contract import Contract, contract_names, load_contract, parse_contract
from schemas.errors import UserError
from stages.runtime.layout import STAGES
from tests.unit.schemas.conftest import TEXT


@pytest.mark.parametrize("name", contract_names())
def test_every_contract_is_sound_sql_over_its_columns(name: str) -> None:
    contract = load_contract(name)
    assert all(column.description for column in contract.columns)
    with duckdb.connect() as connection:
        connection.execute(contract.create_table("rows"))
        for rule in contract.row_rules:
            connection.execute(f"SELECT CAST(({rule.sql}) AS BOOLEAN) FROM rows")
        for rule in contract.table_rules:
            connection.execute(f"SELECT CAST(({rule.sql}) AS BOOLEAN) FROM rows").fetchall()
        for sql in contract.profile.values():
            connection.execute(f"SELECT CAST(({sql}) AS DOUBLE) FROM rows")
    names = [rule.name for rule in (*contract.row_rules, *contract.table_rules)]
    assert len(names) == len(set(names))


def test_every_dataset_of_the_layout_has_a_contract() -> None:
    written = {name for stage in STAGES.values() for name in stage.writes}
    assert written == set(contract_names())


def test_columns_that_may_not_be_null_get_a_quarantine_rule(things: Contract) -> None:
    rules = {rule.name: rule.severity for rule in things.row_rules}
    assert rules["n_not_null"] == "quarantine"
    assert "note_not_null" not in rules


def test_unknown_contract_lists_those_there_are() -> None:
    with pytest.raises(UserError, match="no contract for dataset 'question'") as caught:
        load_contract("question")
    assert "questions" in str(caught.value)


@pytest.mark.parametrize(
    ("given", "instead", "message"),
    [
        ("profile:", "profiles:", "unknown keys ['profiles']"),
        ("key: [id]", "key: [id, missing]", "key columns ['missing']"),
        ("key: [id]\n", "", "lacks ['key']"),
        ("description: The number}", "description: one, two}", "column n"),
        ("{type: BIGINT, description: The number}", "BIGINT", "column n: its keys are ['BIGINT']"),
        ("{type: BIGINT, description: The number}", "{type: BIGINT}", "column n"),
        ("severity: warn, reason: the note", "severity: warning, reason: the note", "'warning'"),
        ("reason: the note is long", "reason: long, or bad", "note_short"),
        ("key: [id]", "key: [id", "not YAML"),
    ],
)
def test_a_broken_contract_says_what_is_wrong(given: str, instead: str, message: str) -> None:
    assert given in TEXT
    with pytest.raises(UserError) as caught:
        parse_contract("things", TEXT.replace(given, instead, 1))
    assert message in str(caught.value)


def test_an_unquoted_comma_is_named_with_the_fix() -> None:
    text = TEXT.replace("description: The number}", "description: one, two}")
    with pytest.raises(UserError) as caught:
        parse_contract("things", text)
    assert "'two'" in str(caught.value)
    assert "quotes" in (caught.value.fix or "")


def test_the_hash_follows_the_text() -> None:
    assert parse_contract("things", TEXT).hash == parse_contract("things", TEXT).hash
    assert parse_contract("things", TEXT).hash != parse_contract("things", TEXT + "\n").hash
