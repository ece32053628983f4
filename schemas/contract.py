"""Contracts: what a dataset's rows must be, read from `schemas/contracts/NAME.yaml`.

A contract names the columns (type, description, may it be null), the key, row rules and table
rules. Each rule has a severity:

    fail        the stage stops
    quarantine  the row goes to `_quarantine/` with the rule and the reason; over the contract's
                bound the stage stops
    warn        counted and shown

Rules are SQL predicates over the dataset's columns that hold for a good row. They are computed by
DuckDB as flags, and judged by Great Expectations on a projection that never holds the long text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from schemas.errors import UserError
from schemas.ids import content_id

CONTRACTS = Path(__file__).parent / "contracts"
Severity = Literal["fail", "quarantine", "warn"]


@dataclass(frozen=True)
class Column:
    """One column: DuckDB type, what it means, and whether null is a value."""

    name: str
    type: str
    description: str
    nullable: bool = False


@dataclass(frozen=True)
class Rule:
    """A predicate that holds for good data; `reason` is what a user reads when it does not."""

    name: str
    sql: str
    severity: Severity
    reason: str


@dataclass(frozen=True)
class Contract:
    """The whole contract of one dataset. Its `hash` is stored with the data it admitted."""

    name: str
    description: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    row_rules: tuple[Rule, ...] = ()
    table_rules: tuple[Rule, ...] = ()
    profile: dict[str, str] = field(default_factory=dict)
    """Numbers per row that the data-quality report shows (name -> SQL expression)."""
    quarantine_bound: float = 0.0
    shard_rows: int = 50_000
    hash: str = ""

    def column_names(self) -> list[str]:
        return [column.name for column in self.columns]

    def create_table(self, table: str) -> str:
        """The `CREATE TABLE` statement for this contract's columns (nulls are checked later)."""
        body = ", ".join(f'"{column.name}" {column.type}' for column in self.columns)
        return f"CREATE TABLE {table} ({body})"


def contract_names() -> list[str]:
    return sorted(path.stem for path in CONTRACTS.glob("*.yaml"))


@cache
def load_contract(name: str) -> Contract:
    """Read and check one contract. Raises `UserError` for an unknown name or a broken file."""
    path = CONTRACTS / f"{name}.yaml"
    if not path.exists():
        raise UserError(f"no contract for dataset '{name}'", allowed=contract_names())
    text = path.read_text(encoding="utf-8")
    return parse_contract(name, text)


def parse_contract(name: str, text: str) -> Contract:
    """A contract from its YAML text. Unknown keys and missing descriptions are errors."""
    try:
        raw: dict[str, Any] = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UserError(f"contract '{name}' is not YAML: {error}") from error
    fields = {
        "description", "key", "columns", "row_rules", "table_rules", "profile",
        "quarantine_bound", "shard_rows",
    }  # fmt: skip
    unknown = set(raw) - fields
    if unknown:
        raise UserError(f"contract '{name}' has unknown keys {sorted(unknown)}", allowed=fields)
    missing = {"description", "key", "columns"} - set(raw)
    if missing:
        raise UserError(f"contract '{name}' lacks {sorted(missing)}", allowed=fields)
    for column, spec in raw["columns"].items():
        _check_keys(name, f"column {column}", spec, {"type", "description"}, {"nullable"})
    for rule in (*raw.get("row_rules", ()), *raw.get("table_rules", ())):
        _check_keys(name, f"rule {rule}", rule, {"name", "sql", "severity", "reason"}, set())
        if rule["severity"] not in get_args(Severity):
            raise UserError(
                f"contract '{name}', rule {rule['name']}: unknown severity '{rule['severity']}'",
                allowed=get_args(Severity),
            )
    columns = tuple(Column(name=column, **spec) for column, spec in raw["columns"].items())
    key = tuple(raw["key"])
    missing = set(key) - {column.name for column in columns}
    if missing:
        raise UserError(f"contract '{name}': key columns {sorted(missing)} are not columns")
    not_null = tuple(
        Rule(f"{column.name}_not_null", f'"{column.name}" IS NOT NULL', "quarantine",
             f"{column.name} is null")
        for column in columns if not column.nullable
    )  # fmt: skip
    return Contract(
        name=name,
        description=raw["description"],
        key=key,
        columns=columns,
        row_rules=not_null + tuple(Rule(**rule) for rule in raw.get("row_rules", ())),
        table_rules=tuple(Rule(**rule) for rule in raw.get("table_rules", ())),
        profile=dict(raw.get("profile", {})),
        quarantine_bound=float(raw.get("quarantine_bound", 0.0)),
        shard_rows=int(raw.get("shard_rows", 50_000)),
        hash=content_id(text),
    )


def _check_keys(
    contract: str, where: str, spec: Any, required: set[str], optional: set[str]
) -> None:
    given = set(spec) if isinstance(spec, dict) else {str(spec)}
    if not required <= given <= required | optional:
        raise UserError(
            f"contract '{contract}', {where}: its keys are {sorted(map(str, given))}",
            allowed=required | optional,
            fix="put a text that holds a comma or a colon in quotes",
        )
