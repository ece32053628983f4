"""What a workspace holds: parameters, pipeline, lock, metrics, run log and opened datasets.

Everything is read once, leniently: what a stage has not written yet is absent, never an error.
Datasets are opened with their shard hashes verified, and queried with SQL, so that no large
dataset is ever in memory:

    workspace = Workspace.open(root)
    workspace.query("SELECT split, count(*) AS n FROM questions GROUP BY split ORDER BY split")
"""

from __future__ import annotations

import csv
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from schemas.catalog import dataset_folders
from schemas.duck import connect, name, quoted
from schemas.errors import UserError
from schemas.read import Dataset
from stages.runtime import runlog
from stages.runtime.layout import STAGES, details_path, metrics_path, plot_path

Row = dict[str, Any]
_ORDER = {dataset: i for i, dataset in enumerate(d for s in STAGES.values() for d in s.writes)}
_OWN_OUTPUT = (":!reports/index.html", ":!reports/data_docs")


@dataclass(frozen=True)
class Workspace:
    """The facts of one workspace. `datasets` are in the order in which stages write them."""

    root: Path
    params: Row
    pipeline: Row
    """The stages of dvc.yaml, by name."""
    lock: Row
    """The stages of dvc.lock, by name; empty before the first `dvc repro`."""
    metrics: dict[str, Row]
    """By stage: the headline numbers and, where there are any, the details."""
    runs: tuple[Row, ...]
    datasets: dict[str, Dataset]
    db: duckdb.DuckDBPyConnection

    @classmethod
    def open(cls, root: Path) -> Workspace:
        """Read everything below `root`. `UserError` when there is no result at all."""
        folders = sorted(
            dataset_folders(root / "data"), key=lambda f: (_ORDER.get(f.name, 99), f.name)
        )
        metrics = {
            stage: _json(root / metrics_path(stage)) | _json(root / details_path(stage))
            for stage in STAGES
            if (root / metrics_path(stage)).exists()
        }
        if not folders and not metrics:
            raise UserError(f"nothing to report: no dataset and no metrics in {root}",
                            fix="dvc repro")  # fmt: skip
        datasets = {folder.name: Dataset.open(folder) for folder in folders}
        db = connect()
        for dataset_name, dataset in datasets.items():
            db.execute(f"CREATE VIEW {name(dataset_name)} AS SELECT * FROM {dataset.source()}")
        return cls(
            root=root,
            params=_yaml(root / "params.yaml"),
            pipeline=_yaml(root / "dvc.yaml").get("stages", {}),
            lock=_yaml(root / "dvc.lock").get("stages", {}),
            metrics=metrics,
            runs=tuple(runlog.read(root / runlog.RUN_LOG)),
            datasets=datasets,
            db=db,
        )

    def query(self, sql: str, *parameters: Any) -> list[Row]:
        """Rows of an SQL query; every dataset is a view of its name."""
        rows: list[Row] = self.db.sql(sql, params=list(parameters)).to_arrow_table().to_pylist()
        return rows

    def quarantine(self, dataset: str, limit: int) -> list[Row]:
        """The first quarantined rows of a dataset, contents cut to 300 characters."""
        files = sorted((self.datasets[dataset].folder / "_quarantine").glob("part-*.parquet"))
        if not files:
            return []
        listed = ", ".join(quoted(file) for file in files)
        return self.query(
            "SELECT rule, reason, key, source, substr(content, 1, 300) AS content, "
            f"length(content) AS n_chars FROM read_parquet([{listed}]) "
            "ORDER BY rule, source NULLS LAST, key LIMIT ?",
            limit,
        )

    def has(self, *datasets: str) -> bool:
        return all(dataset in self.datasets for dataset in datasets)

    def plot(self, plot: str) -> list[Row]:
        """A stage's curve: rows of its CSV with numbers as floats and empty fields as None."""
        path = self.root / plot_path(plot)
        if not path.exists():
            return []
        with path.open(encoding="utf-8", newline="") as file:
            return [{k: _number(v) for k, v in row.items()} for row in csv.DictReader(file)]

    def last_run(self, stage: str, status: str | None = "ok") -> Row | None:
        """The newest entry of the run log for a stage, with this status if one is given."""
        found = [
            run for run in self.runs
            if run.get("stage") == stage and (status is None or run.get("status") == status)
        ]  # fmt: skip
        return found[-1] if found else None

    def variant(self, stage: str) -> str:
        section = self.params.get(stage)
        return str(section.get("kind", "unknown")) if isinstance(section, dict) else "unknown"

    def seed(self, stage: str) -> int:
        """The seed of a stage's own bootstrap, so that intervals here equal the stage's."""
        section = self.params.get(stage)
        return int(section.get("seed", 0)) if isinstance(section, dict) else 0

    def outcome_measure(self) -> str:
        """The measure that says right or wrong: the outcome term of `evaluate.reward`."""
        terms = (self.params.get("evaluate") or {}).get("reward", {}).get("terms", {})
        for term, spec in terms.items():
            if spec.get("kind") == "outcome":
                return str(term)
        return "reward"


def git_revision(root: Path) -> str | None:
    """The commit checked out at `root`, with a note on uncommitted changes; None without Git."""
    commit = _git(root, "rev-parse", "--short=12", "HEAD")
    if not commit:
        return None
    changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", ".", *_OWN_OUTPUT)
    return commit + (" with uncommitted changes" if changed else "")


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _json(path: Path) -> Row:
    found: Row = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def _yaml(path: Path) -> Row:
    """As DVC reads it: by YAML 1.2, in which its `2e-05` is a number."""
    if not path.exists():
        return {}
    try:
        loaded = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    except YAMLError as error:
        raise UserError(f"{path} is not YAML: {error}", fix=f"git checkout {path.name}") from error
    return loaded if isinstance(loaded, dict) else {}


def _number(text: str | None) -> Any:
    if text is None or text == "":
        return None
    try:
        return float(text)
    except ValueError:
        return text
