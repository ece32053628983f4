"""Data quality: what each contract's rules found, distributions, and quarantined rows.

Rule results are those that Great Expectations wrote with the data (`_validation.json`), so the
report shows what was checked when the dataset was made, not a check of its own.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from pipelines.report.charts import Chart, bar_chart
from pipelines.report.facts import Row, Workspace

QUARANTINE_SAMPLES = 5
_BINS = 12


@dataclass(frozen=True)
class Rule:
    name: str
    severity: str
    reason: str
    checked: int
    broken: int
    within: bool
    """Whether that is within what the contract tolerates."""


@dataclass(frozen=True)
class Profile:
    column: str
    mean: float | None


@dataclass(frozen=True)
class Quality:
    """The rules of one dataset, its profile means and the first rows in quarantine."""

    dataset: str
    rules: tuple[Rule, ...]
    profile: tuple[Profile, ...]
    quarantined: int
    samples: tuple[Row, ...]

    @property
    def severities(self) -> dict[str, int]:
        return dict(Counter(rule.severity for rule in self.rules))

    @property
    def broken(self) -> tuple[Rule, ...]:
        return tuple(rule for rule in self.rules if rule.broken)

    @property
    def within(self) -> bool:
        return all(rule.within or rule.severity == "warn" for rule in self.rules)


def quality(workspace: Workspace) -> list[Quality]:
    """One entry a dataset that has a validation."""
    found = []
    for name, dataset in workspace.datasets.items():
        path = dataset.folder / "_validation.json"
        if not path.exists():
            continue
        results = json.loads(path.read_text(encoding="utf-8"))["results"]
        lost = sum(dataset.meta["accounting"]["quarantined"].values())
        found.append(
            Quality(
                name,
                tuple(_rule(entry) for entry in results if _notes(entry)),
                tuple(
                    Profile(entry["expectation_config"]["kwargs"]["column"],
                            entry["result"].get("observed_value"))
                    for entry in results if not _notes(entry)
                ),
                lost,
                tuple(workspace.quarantine(name, QUARANTINE_SAMPLES)) if lost else (),
            )
        )  # fmt: skip
    return found


def distributions(workspace: Workspace) -> list[Chart]:
    """Small charts of lengths, hops and splits, aggregated in SQL."""
    charts = []
    if workspace.has("documents"):
        charts.append(
            _histogram(workspace, "Tokens a document", "documents", "n_tokens", "true", "documents")
        )
    if workspace.has("contexts"):
        charts.append(
            _histogram(workspace, "Tokens a prompt, long view", "contexts", "n_tokens",
                       "view = 'long'", "contexts")
        )  # fmt: skip
        charts.append(_gold_positions(workspace))
    if workspace.has("questions"):
        charts.append(_hops(workspace))
    return charts


def _notes(entry: Row) -> str:
    return str(entry["expectation_config"].get("notes") or "")


def _rule(entry: Row) -> Rule:
    severity, _, reason = _notes(entry).partition(": ")
    result = entry["result"]
    broken = int(result.get("unexpected_count") or 0) + int(result.get("missing_count") or 0)
    return Rule(
        entry["expectation_config"]["kwargs"]["column"],
        severity,
        reason,
        int(result.get("element_count") or 0),
        broken,
        bool(entry["success"]),
    )


def _histogram(
    workspace: Workspace, title: str, dataset: str, column: str, where: str, unit: str
) -> Chart:
    [edge] = workspace.query(
        f"SELECT min({column}) AS low, max({column}) AS high FROM {dataset} WHERE {where}"
    )
    low, high = edge["low"] or 0, edge["high"] or 0
    width = max(1, -(-(high - low + 1) // _BINS))
    rows = workspace.query(
        f"SELECT ({column} - {low}) // {width} AS bin, count(*) AS n FROM {dataset} "
        f"WHERE {where} GROUP BY bin"
    )
    counts = {int(row["bin"]): int(row["n"]) for row in rows}
    bins = range((high - low) // width + 1)
    starts = [low + i * width for i in bins]
    labels = [str(s) if width == 1 else f"{_short(s)}–{_short(s + width - 1)}" for s in starts]
    if any(len(label) > 5 for label in labels):
        labels = [_short(start) for start in starts]
    return bar_chart(title, labels, {unit: [counts.get(i, 0) for i in bins]},
                     x=f"tokens (bins of {width:,}, by first value)" if width > 1 else "tokens",
                     y=unit)  # fmt: skip


def _short(value: int) -> str:
    return f"{value / 1000:.3g}k" if value >= 10_000 else str(value)


def _gold_positions(workspace: Workspace) -> Chart:
    rows = workspace.query(
        "SELECT least(CAST(floor(gold_position * 10) AS BIGINT), 9) AS bin, count(*) AS n "
        "FROM contexts WHERE view = 'long' GROUP BY bin"
    )
    counts = {row["bin"]: row["n"] for row in rows}
    return bar_chart(
        "Where the last gold document starts", [f"{i / 10:.1f}" for i in range(10)],
        {"contexts": [counts.get(i, 0) for i in range(10)]},
        x="position in the long view, 0 first to 1 last", y="contexts",
    )  # fmt: skip


def _hops(workspace: Workspace) -> Chart:
    rows = workspace.query(
        "SELECT split, hops, count(*) AS n FROM questions GROUP BY ALL ORDER BY ALL"
    )
    splits = [s for s in ("train", "validation", "test") if any(r["split"] == s for r in rows)]
    hops = sorted({row["hops"] for row in rows})
    counts: dict[tuple[Any, Any], int] = {(row["split"], row["hops"]): row["n"] for row in rows}
    totals = {split: sum(counts.get((split, hop), 0) for hop in hops) for split in splits}
    return bar_chart(
        "Questions by hops and split", [str(hop) for hop in hops],
        {s: [counts.get((s, hop), 0) for hop in hops] for s in splits},
        x="hops (" + ", ".join(f"{s} {totals[s]:,}" for s in splits) + ")", y="questions",
    )  # fmt: skip
