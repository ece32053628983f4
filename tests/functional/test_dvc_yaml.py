"""`dvc.yaml` says what the code does: outputs by the layout, dependencies by the import graph."""

from __future__ import annotations

from pathlib import Path

import grimp
import pytest
import yaml

from pipelines.dag.nodes import Resources
from pipelines.dag.project import open_project
from pipelines.params import compose_text
from stages.runtime.layout import (
    STAGES,
    dataset_path,
    details_path,
    metrics_path,
    model_path,
    plot_path,
)

ROOT = Path(__file__).parents[2]
DVC = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))
GRAPH = grimp.build_graph("stages", "schemas")


def names(entries: list[object]) -> set[str]:
    """Paths of dvc.yaml entries, which are strings or one-key mappings."""
    return {next(iter(e)) if isinstance(e, dict) else str(e) for e in entries}


def code_of(stage: str) -> set[str]:
    """The packages that a stage's code reaches: its own and the shared ones it imports."""
    own = {m for m in GRAPH.modules if m == f"stages.{stage}" or m.startswith(f"stages.{stage}.")}
    reached = set(own)
    for module in own | {"stages.__main__"}:
        reached |= GRAPH.find_upstream_modules(module)
    packages = {"schemas" if m.split(".")[0] == "schemas" else "/".join(m.split(".")[:2])
                for m in reached if m != "stages"}  # fmt: skip
    return packages | {"stages/__main__.py"}


def test_the_stages_are_those_of_the_layout() -> None:
    assert list(DVC["stages"]) == ["params", *STAGES]


@pytest.mark.parametrize("name", STAGES)
def test_stage(name: str) -> None:
    layout, stage = STAGES[name], DVC["stages"][name]
    assert stage["cmd"] == f"python -m stages {name}"
    assert stage["params"] == [name]
    outs = {str(dataset_path(d)) for d in layout.writes}
    outs |= {str(model_path(m)) for m in layout.writes_models}
    outs |= {str(details_path(name))} if layout.details else set()
    assert names(stage["outs"]) == outs
    assert stage["metrics"] == [{str(metrics_path(name)): {"cache": False}}]
    assert names(stage.get("plots", [])) == {str(plot_path(p)) for p in layout.plots}
    data = {str(dataset_path(d)) for d in layout.reads}
    data |= {str(model_path(m)) for m in layout.reads_models}
    data |= {"${corpus.path}"} if layout.input_path else set()
    assert names(stage["deps"]) == data | code_of(name)
    assert stage["meta"].get("contracts", []) == list(layout.writes)


@pytest.mark.parametrize(
    ("overrides", "gpus", "timeout"),
    [([], 0, 7200.0), (["profile=gpu"], 1, 86400.0), (["runtime.timeout=null"], 0, None)],
)
def test_stages_that_may_ask_or_train_a_model_take_what_the_runtime_says(
    overrides: list[str], gpus: int, timeout: float | None
) -> None:
    nodes = open_project(ROOT, compose_text(overrides, ROOT)).nodes
    cpus = dict.fromkeys(("warmup", "candidates", "judge", "reward_model", "policy", "evaluate"), 2)
    for name, wanted in ({"corpus": 1, "synthesize": 1} | cpus).items():
        assert nodes[name].resources == Resources(cpus=wanted, gpus=gpus)
        assert nodes[name].timeout == timeout
    assert nodes["distractors"].resources == Resources(cpus=1)
