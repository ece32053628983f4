"""`params.yaml` as validated values: one check for the command line, DVC and Python.

`params.yaml` is composed from `conf/` (see pipelines/params.py) and never edited by hand. Each
stage's subtree is its identity: what changes its result. `runtime` holds what must not.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import yaml
from pydantic import Field, model_validator

from schemas.errors import UserError
from stages.runtime.layout import STAGES
from stages.runtime.llm import LlmSettings
from stages.runtime.rollouts import RolloutSettings
from stages.runtime.variant import Settings, StageConfig, checked, validate

COMPOSE = "longline params compose"


class Seeds(Settings):
    """`data` feeds everything up to the contexts, `train` all sampling and training."""

    data: int = Field(ge=0)
    train: int = Field(ge=0)


class Runtime(Settings):
    """Knobs that must not change any result; no stage tracks them."""

    threads: int = Field(ge=1, description="CPU threads of torch")
    generation_batch: int = Field(ge=1, description="Prompts in one call of generate")
    micro_batch: int | None = Field(
        ge=1, description="Sequences of a training step that are in memory at once; null is all"
    )
    accelerate: str | None = Field(
        description="File of `accelerate config` to train under; null is this process alone"
    )
    device: str = Field(pattern="^(auto|cpu|cuda)$")
    gpus: int = Field(ge=0, description="GPUs a stage with a model occupies under `longline run`")
    timeout: float | None = Field(
        gt=0, description="Seconds it may take under `longline run`; null is no bound"
    )
    llm: LlmSettings
    rollouts: RolloutSettings

    @model_validator(mode="after")
    def _gpus_suffice(self) -> Self:
        """A stage sees `gpus` GPUs, so vLLM cannot spread over more. 0 bounds nothing."""
        for name, used in self._spread().items():
            if 0 < self.gpus < used:
                raise ValueError(f"gpus is {self.gpus}, but {name} takes {used}; set gpus: {used}")
        return self

    def _spread(self) -> dict[str, int]:
        """How many GPUs each setting of vLLM takes, where vLLM is what runs."""
        choices = {
            "llm": self.llm.of(),
            **{f"llm.stages.{s}": self.llm.of(s) for s in self.llm.stages},
        }
        found = {
            f"{name}.vllm (tensor_parallel x data_parallel)": one.vllm.tensor_parallel
            * one.vllm.data_parallel
            for name, one in choices.items()
            if one.backend == "vllm" or (one.backend == "server" and one.server.url is None)
        }
        if self.rollouts.engine == "vllm_colocate":
            found["rollouts.tensor_parallel"] = self.rollouts.tensor_parallel
        return found


@dataclass(frozen=True)
class Params:
    """The whole of params.yaml, checked."""

    conf_digest: str
    profile: str
    recipe: str
    seed: Seeds
    runtime: Runtime
    stages: dict[str, StageConfig]
    raw: dict[str, Any]


_TOP = {"conf_digest", "profile", "recipe", "size", "prompt", "adapter", "seed", "runtime", *STAGES}


def parse_params(raw: Any) -> Params:
    """Check composed parameters. Raises `UserError` that names the key and the allowed ones."""
    if not isinstance(raw, dict):
        raise UserError("params.yaml is not a mapping", fix=COMPOSE)
    unknown = sorted(set(raw) - _TOP)
    if unknown:
        raise UserError(f"unknown parameter '{unknown[0]}'", allowed=_TOP, fix=COMPOSE)
    missing = sorted(_TOP - set(raw))
    if missing:
        raise UserError(f"params.yaml lacks '{missing[0]}'", fix=COMPOSE)
    return Params(
        conf_digest=str(raw["conf_digest"]),
        profile=str(raw["profile"]),
        recipe=str(raw["recipe"]),
        seed=checked(Seeds, raw["seed"], "seed"),
        runtime=checked(Runtime, raw["runtime"], "runtime"),
        stages={stage: validate(stage, raw[stage]) for stage in STAGES},
        raw=raw,
    )


def load_params(path: Path = Path("params.yaml")) -> Params:
    """Read and check `params.yaml`."""
    if not path.exists():
        raise UserError(f"no {path} in {Path.cwd()}", fix=COMPOSE)
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise UserError(f"{path} is not YAML: {error}", fix=COMPOSE) from error
    return parse_params(raw)
