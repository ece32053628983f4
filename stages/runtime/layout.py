"""Where everything lies, by one convention: `data/DATASET`, `models/NAME`, `reports/STAGE.json`.

The table below is the pipeline as the stages see it; a test holds `dvc.yaml` to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from schemas.errors import UserError


@dataclass(frozen=True)
class StageLayout:
    """What a stage reads and writes. Names of datasets and models, not paths."""

    name: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    reads_models: tuple[str, ...] = ()
    writes_models: tuple[str, ...] = ()
    plots: tuple[str, ...] = ()
    details: bool = False
    """Writes more than the headline numbers, to `reports/details/STAGE.json`."""
    input_path: bool = False
    """Reads the user's files at `corpus.path`."""


STAGES: dict[str, StageLayout] = {
    stage.name: stage
    for stage in (
        StageLayout(
            "corpus",
            writes=("documents", "chunks", "triples"),
            writes_models=("tokenizer",),
            input_path=True,
        ),
        StageLayout(
            "synthesize",
            reads=("documents", "chunks", "triples"),
            writes=("questions",),
            input_path=True,
        ),
        StageLayout(
            "distractors",
            reads=("documents", "chunks", "questions"),
            reads_models=("tokenizer",),
            writes=("contexts", "traces"),
        ),
        StageLayout("rubrics", reads=("questions",), writes=("rubrics",)),
        StageLayout(
            "warmup",
            reads=("documents", "chunks", "triples", "questions", "contexts"),
            reads_models=("tokenizer",),
            writes_models=("warmup",),
            plots=("warmup",),
        ),
        StageLayout(
            "candidates",
            reads=("documents", "chunks", "questions", "contexts"),
            reads_models=("warmup",),
            writes=("candidates",),
        ),
        StageLayout(
            "judge",
            reads=("documents", "chunks", "questions", "contexts", "rubrics", "candidates"),
            writes=("judgments",),
        ),
        StageLayout("preferences", reads=("candidates", "judgments"), writes=("preferences",)),
        StageLayout(
            "reward_model",
            reads=("documents", "chunks", "questions", "contexts", "candidates", "preferences"),
            reads_models=("warmup",),
            writes_models=("reward_model",),
            plots=("reward_model",),
        ),
        StageLayout(
            "policy",
            reads=("documents", "chunks", "questions", "contexts", "rubrics"),
            reads_models=("warmup", "reward_model"),
            writes=("rollouts",),
            writes_models=("policy",),
            plots=("policy",),
        ),
        StageLayout(
            "evaluate",
            reads=(
                "documents", "chunks", "questions", "contexts", "rubrics", "candidates",
                "preferences", "judgments",
            ),
            reads_models=("reward_model", "policy"),
            writes=("evaluations",),
            plots=("evaluate",),
            details=True,
        ),
    )
}  # fmt: skip


def stage_layout(name: str) -> StageLayout:
    """The layout of one stage; `UserError` names the stages there are."""
    if name not in STAGES:
        raise UserError(f"no stage '{name}'", allowed=STAGES)
    return STAGES[name]


def dataset_path(name: str) -> Path:
    return Path("data") / name


def model_path(name: str) -> Path:
    return Path("models") / name


def metrics_path(stage: str) -> Path:
    return Path("reports") / f"{stage}.json"


def details_path(stage: str) -> Path:
    return Path("reports") / "details" / f"{stage}.json"


def plot_path(name: str) -> Path:
    return Path("reports") / "plots" / f"{name}.csv"
