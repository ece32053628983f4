"""What a variant gets to work with: its inputs, its outputs, its seeds, its metrics.

    def run(config, context):
        writer = context.writer("questions")
        for row in context.read("documents"):
            ...
        context.finish("questions", rows_in=n)
        return {"questions": n}                 # headline numbers, for reports/STAGE.json

Everything is written to `.work/STAGE-PID/` and published only when the whole stage succeeded.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from schemas.contract import load_contract
from schemas.publish import publish, recover
from schemas.read import Dataset
from schemas.write import Bound, DatasetResult, DatasetWriter
from stages.runtime.layout import (
    StageLayout,
    dataset_path,
    details_path,
    metrics_path,
    model_path,
    plot_path,
    stage_layout,
)
from stages.runtime.params import Params
from stages.runtime.progress import say


@dataclass
class StageContext:
    """One run of one stage. Reads and writes only what the layout allows."""

    layout: StageLayout
    params: Params
    work: Path
    _datasets: dict[str, Dataset] = field(default_factory=dict)
    _writers: dict[str, DatasetWriter] = field(default_factory=dict)
    _finished: dict[str, DatasetResult] = field(default_factory=dict)
    _models: set[str] = field(default_factory=set)
    _plots: dict[str, Path] = field(default_factory=dict)
    _details: Path | None = None

    @classmethod
    def create(cls, stage: str, params: Params) -> StageContext:
        work = Path(".work") / f"{stage}-{os.getpid()}"
        _clear_abandoned(stage)
        work.mkdir(parents=True)
        return cls(stage_layout(stage), params, work)

    # -- inputs ------------------------------------------------------------------------------

    def dataset(self, name: str) -> Dataset:
        """An input dataset, opened and verified once."""
        if name not in self.layout.reads:
            raise ValueError(f"stage {self.layout.name} does not read {name}")
        if name not in self._datasets:
            recover(dataset_path(name))
            self._datasets[name] = Dataset.open(dataset_path(name))
        return self._datasets[name]

    def read(
        self, name: str, where: str = "true", columns: Sequence[str] | None = None
    ) -> Iterator[dict[str, Any]]:
        """Rows of an input dataset, in the order of its key."""
        return self.dataset(name).rows(where, columns)

    def model(self, name: str) -> Path:
        """The folder of an input model."""
        if name not in self.layout.reads_models:
            raise ValueError(f"stage {self.layout.name} does not read model {name}")
        recover(model_path(name))
        return model_path(name)

    # -- outputs -----------------------------------------------------------------------------

    def writer(self, name: str) -> DatasetWriter:
        """The writer of an output dataset, made at the first call."""
        if name not in self.layout.writes:
            raise ValueError(f"stage {self.layout.name} does not write {name}")
        if name not in self._writers:
            self._writers[name] = DatasetWriter(load_contract(name), self.work / "data" / name)
        return self._writers[name]

    def finish(self, name: str, rows_in: int, bound: Bound | None = None) -> DatasetResult:
        """Check and close an output dataset. `rows_in` is what its accounting starts from.

        `bound` is the stage's own of rows in quarantine, in place of the contract's.
        """
        result = self.writer(name).finish(rows_in, bound)
        self._finished[name] = result
        lost = {**result.quarantined, **result.dropped}
        say(f"{name}: {rows_in} in, {result.rows} out" + (f", {lost}" if lost else ""))
        return result

    def model_folder(self, name: str) -> Path:
        """An empty folder for an output model."""
        if name not in self.layout.writes_models:
            raise ValueError(f"stage {self.layout.name} does not write model {name}")
        folder = self.work / "models" / name
        folder.mkdir(parents=True, exist_ok=True)
        self._models.add(name)
        return folder

    def plot(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """A CSV file that `dvc plots` and the report draw."""
        if name not in self.layout.plots or not rows:
            raise ValueError(f"stage {self.layout.name} does not plot {name} ({len(rows)} rows)")
        path = self.work / f"{name}.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
            table.writeheader()
            table.writerows(rows)
        self._plots[name] = path

    def details(self, values: Mapping[str, Any]) -> None:
        """Everything that was measured, where the headline numbers are only a part of it."""
        if not self.layout.details:
            raise ValueError(f"stage {self.layout.name} does not write details")
        self._details = self._json("details.json", values)

    @cached_property
    def scratch(self) -> Path:
        """A folder for temporary files; removed with the work."""
        folder = self.work / "scratch"
        folder.mkdir(exist_ok=True)
        return folder

    # -- the end -----------------------------------------------------------------------------

    def publish(self, metrics: Mapping[str, Any]) -> None:
        """Put everything in place. Refuses a stage that did not write all its outputs."""
        layout = self.layout
        for kind, wanted, got in (
            ("dataset", layout.writes, self._finished),
            ("model", layout.writes_models, self._models),
            ("plot", layout.plots, self._plots),
            (
                "details",
                ("details",) if layout.details else (),
                ("details",) if self._details else (),
            ),
        ):
            missing = set(wanted) - set(got)
            if missing:
                raise ValueError(f"stage {layout.name} did not write {kind} {sorted(missing)}")
        file = self._json("metrics.json", metrics)
        for name in layout.writes:
            publish(self.work / "data" / name, dataset_path(name))
        for name in layout.writes_models:
            publish(self.work / "models" / name, model_path(name))
        for name, path in self._plots.items():
            publish(path, plot_path(name))
        if self._details is not None:
            publish(self._details, details_path(layout.name))
        publish(file, metrics_path(layout.name))

    def _json(self, name: str, values: Mapping[str, Any]) -> Path:
        file = self.work / name
        text = json.dumps(values, indent=1, sort_keys=True, allow_nan=False)
        file.write_text(text + "\n", encoding="utf-8")
        return file

    def close(self) -> None:
        """Remove the work folder; unpublished work is gone, published datasets are untouched."""
        for writer in self._writers.values():
            writer.close()
        shutil.rmtree(self.work, ignore_errors=True)

    def rows_written(self) -> dict[str, int]:
        return {name: result.rows for name, result in self._finished.items()}


def _clear_abandoned(stage: str) -> None:
    """Remove the work of runs of this stage whose process is gone.

    A folder with this process's own id is left over too: containers hand out the same ids again.
    """
    for folder in Path(".work").glob(f"{stage}-*"):
        pid = folder.name.removeprefix(f"{stage}-")
        if not pid.isdigit() or not Path("/proc").exists():
            continue
        if int(pid) == os.getpid() or not Path(f"/proc/{pid}").exists():
            shutil.rmtree(folder, ignore_errors=True)
