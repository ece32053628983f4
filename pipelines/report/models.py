"""What the language models of each stage were asked, in its last successful run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.report.facts import Workspace
from stages.runtime.layout import STAGES


@dataclass(frozen=True)
class ModelCalls:
    """The calls of one stage. `kept` answers came from the store and cost nothing."""

    stage: str
    requests: int
    kept: int
    asked: int
    repaired: int
    prompt_tokens: int
    unique_tokens: int
    computed_tokens: int
    completion_tokens: int
    seconds: float
    cost: float | None
    statuses: dict[str, int]

    @property
    def computed_over_unique(self) -> float | None:
        """1 is perfect: each text that prompts share was computed once."""
        return self.computed_tokens / self.unique_tokens if self.unique_tokens else None

    @property
    def tokens_per_second(self) -> float | None:
        """Read and written."""
        tokens = self.prompt_tokens + self.completion_tokens
        return tokens / self.seconds if self.seconds and self.asked else None


def model_calls(workspace: Workspace) -> list[ModelCalls]:
    """The stages whose last successful run went through the layer."""
    found = []
    for stage in STAGES:
        good = [
            run for run in workspace.runs if run.get("stage") == stage and run.get("status") == "ok"
        ]
        if good and isinstance(good[-1].get("llm"), Mapping):
            found.append(_calls(stage, good[-1]["llm"], good[-1].get("cost")))
    return found


def _calls(stage: str, counted: Mapping[str, Any], cost: Any) -> ModelCalls:
    whole = {
        name: int(counted.get(name, 0))
        for name in (
            "requests", "kept", "asked", "repaired", "prompt_tokens", "unique_tokens",
            "computed_tokens", "completion_tokens",
        )
    }  # fmt: skip
    return ModelCalls(
        stage=stage,
        **whole,
        seconds=float(counted.get("seconds", 0.0)),
        cost=float(cost) if isinstance(cost, int | float) else None,
        statuses=dict(counted.get("statuses", {})),
    )
