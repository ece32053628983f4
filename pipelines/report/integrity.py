"""Checks that the report makes itself, so that its numbers need not be believed.

Each check says what was compared and on how many things; one that cannot be made (no lock file,
stage not run) is left out of the verdict and says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pipelines.report.accounting import balance
from pipelines.report.facts import Workspace
from stages.runtime.layout import STAGES

Verdict = Literal["pass", "fail", "not made"]


@dataclass(frozen=True)
class Check:
    name: str
    verdict: Verdict
    detail: str


def checks(workspace: Workspace) -> list[Check]:
    """All checks, in the order of the pipeline."""
    return [
        _shards(workspace),
        _accounting(workspace),
        _splits(workspace),
        _contexts(workspace),
        _means(workspace),
        _edges(workspace),
        _params(workspace),
    ]


def _result(name: str, wrong: list[str], good: str) -> Check:
    if wrong:
        more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        return Check(name, "fail", "; ".join(wrong[:5]) + more)
    return Check(name, "pass", good)


def _shards(workspace: Workspace) -> Check:
    # Dataset.open has compared each shard's SHA-256 and raises on a difference.
    wrong = [
        f"{name}: shards hold {sum(s['rows'] for s in d.meta['shards'])} rows, not {d.row_count}"
        for name, d in workspace.datasets.items()
        if sum(s["rows"] for s in d.meta["shards"]) != d.row_count
    ]
    total = sum(len(d.meta["shards"]) for d in workspace.datasets.values())
    return _result(
        "Shards are the bytes that were written", wrong,
        f"SHA-256 and row count of {total} shards in {len(workspace.datasets)} datasets",
    )  # fmt: skip


def _accounting(workspace: Workspace) -> Check:
    wrong = [
        f"{name}: off by {balance(d.meta['accounting'])}"
        for name, d in workspace.datasets.items()
        if balance(d.meta["accounting"])
    ]
    return _result("Rows in = out + quarantined + dropped", wrong,
                   f"{len(workspace.datasets)} datasets")  # fmt: skip


def _contexts(workspace: Workspace) -> Check:
    name = "No training context holds a gold document of another split"
    if not (workspace.has("questions") and workspace.has("contexts")):
        return Check(name, "not made", "no contexts yet")
    [row] = workspace.query(
        "WITH gold AS (SELECT DISTINCT unnest(gold_doc_ids) AS doc_id FROM questions "
        "WHERE split <> 'train'), shown AS (SELECT DISTINCT unnest(documents).doc_id AS doc_id "
        "FROM contexts WHERE split = 'train') SELECT count(*) AS documents, count(*) FILTER "
        "(doc_id IN (SELECT doc_id FROM gold)) AS held_out FROM shown"
    )
    wrong = [f"{row['held_out']} held-out documents are shown"] if row["held_out"] else []
    return _result(name, wrong, f"{row['documents']:,} documents of training contexts compared")


def _splits(workspace: Workspace) -> Check:
    name = "No gold document of train is gold in validation or test"
    if not workspace.has("questions"):
        return Check(name, "not made", "no questions yet")
    [row] = workspace.query(
        "WITH gold AS (SELECT DISTINCT split, unnest(gold_doc_ids) AS doc_id FROM questions) "
        "SELECT count(DISTINCT doc_id) AS documents, count(DISTINCT doc_id) FILTER (split <> "
        "'train' AND doc_id IN (SELECT doc_id FROM gold WHERE split = 'train')) AS shared FROM gold"
    )
    wrong = [f"{row['shared']} documents are shared"] if row["shared"] else []
    return _result(name, wrong, f"{row['documents']:,} gold documents compared")


def _means(workspace: Workspace) -> Check:
    name = "Headline means recomputed from data/evaluations"
    metrics = workspace.metrics.get("evaluate")
    if metrics is None or not workspace.has("evaluations"):
        return Check(name, "not made", "evaluate has not run")
    found = {
        (row["system"], row["measure"]): row["mean"]
        for row in workspace.query(
            "SELECT system, measure, avg(value) AS mean FROM evaluations GROUP BY ALL"
        )
    }
    claimed = _claimed_means(metrics)
    wrong = [
        f"{system} {measure}: {value} reported, {found.get((system, measure))} in the data"
        for (system, measure), value in claimed.items()
        if value is not None and abs(found.get((system, measure), float("inf")) - value) > 1e-6
    ]
    return _result(
        name, wrong, f"{len(claimed)} means equal reports/details/evaluate.json to 6 places"
    )


def _claimed_means(metrics: dict[str, Any]) -> dict[tuple[str, str], float | None]:
    claimed = {
        (system, measure): systems[system]["value"]
        for measure, systems in metrics.get("answers", {}).items()
        for system in systems
        if system != "difference"
    }
    for measure, estimate in metrics.get("blind", {}).items():
        claimed["blind", measure] = estimate["value"]
    for key, value in metrics.get("reward_model", {}).items():
        if key == "pair_accuracy":
            claimed["reward_model", "pair_correct"] = value["value"]
        else:
            size = key.removeprefix("best_of_")
            for system in ("best_of_n", "random_pick", "oracle"):
                claimed[system, f"outcome_at_{size}"] = value[system]["value"]
    return claimed


def _edges(workspace: Workspace) -> Check:
    name = "Every stage read what the stage before it wrote"
    if not workspace.lock:
        return Check(name, "not made", "no dvc.lock; `dvc repro` writes it")
    made = {
        out["path"]: out.get("md5")
        for stage in workspace.lock.values() for out in stage.get("outs", ())
    }  # fmt: skip
    wrong, compared = [], 0
    for stage, entry in workspace.lock.items():
        for dep in entry.get("deps", ()):
            if dep["path"] in made:
                compared += 1
                if made[dep["path"]] != dep.get("md5"):
                    wrong.append(f"{stage} read another {dep['path']} than there is now")
    return _result(name, wrong, f"{compared} hashes in dvc.lock compared")


def _under(params: Any, key: str) -> Any:
    """The value of a key as DVC names it, such as `corpus.path`; None where there is none."""
    for part in key.split("."):
        params = params.get(part) if isinstance(params, Mapping) else None
    return params


def _params(workspace: Workspace) -> Check:
    name = "params.yaml is what the stages ran with"
    if not workspace.lock:
        return Check(name, "not made", "no dvc.lock; `dvc repro` writes it")
    wrong, compared = [], 0
    for stage, entry in workspace.lock.items():
        for key, value in entry.get("params", {}).get("params.yaml", {}).items():
            compared += 1
            if _under(workspace.params, key) != value:
                wrong.append(f"{stage} ran with other values of '{key}'")
    absent = [stage for stage in STAGES if stage not in workspace.lock]
    note = f"; no lock entry yet for {', '.join(absent)}" if absent else ""
    return _result(name, wrong, f"{compared} sections compared{note}")
