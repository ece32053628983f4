"""Settings of the LLM layer under `runtime.llm`: where models run and how they are asked.

None of them changes what is asked, so none is part of a stage's identity or of a request's key
(docs/llm.md has the table). `stages` changes settings for one stage, such as the judge's server:

    llm: {backend: transformers, ..., stages: {judge: {backend: server, server: {url: ...}}}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from stages.runtime.layout import stage_layout
from stages.runtime.variant import Settings, checked
from stages.runtime.vllm import VllmSettings


class Prices(Settings):
    """Cost of a million tokens, in whatever currency; null is unknown, and so is the cost then."""

    prompt: float | None = Field(ge=0)
    cached: float | None = Field(
        ge=0, description="Prompt tokens found in a cache; null: as prompt"
    )
    completion: float | None = Field(ge=0)


class TransformersSettings(Settings):
    """transformers in this process; `runtime.generation_batch` and `runtime.device` hold too."""

    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        description="auto: as the weights are stored"
    )


class ServeSettings(Settings):
    """The server that a stage starts itself where `server.url` is null, and stops at its end."""

    program: tuple[str, ...] = Field(min_length=1, description="Command before the model's folder")
    arguments: dict[str, bool | int | float | str] = Field(
        description="Options, by name without dashes; true is an option without value"
    )
    start_timeout: float = Field(gt=0, description="Seconds until it must answer")


class ServerSettings(Settings):
    """An endpoint that speaks OpenAI's protocol."""

    url: str | None = Field(
        pattern=r"^https?://[^/@\s]+(/|$)",
        description="Such as http://127.0.0.1:8000/v1; null: start one",
    )
    api: Literal["vllm", "openai"] = Field(
        description="vllm: also use what vLLM adds to the protocol; openai: nothing but it"
    )
    endpoint: Literal["completions", "chat"] = Field(
        description="Where rendered prompts go; turns of a chat always go to chat"
    )
    model: str | None = Field(description="The model's name there; null: its folder or name here")
    key_variable: str = Field(
        pattern="^[A-Za-z_][A-Za-z0-9_]*$", description="Environment variable with the API key"
    )
    max_concurrency: int = Field(ge=1, description="Most requests at once; fewer while it is busy")
    attempts: int = Field(ge=1, description="How often a request is sent at most")
    timeout: float = Field(gt=0, description="Seconds of one attempt")
    deadline: float = Field(gt=0, description="Seconds of a request with all its attempts")
    serve: ServeSettings


class LlmChoice(Settings):
    """How one stage asks its models."""

    backend: Literal["transformers", "vllm", "server"]
    store: str = Field(min_length=1, description="Folder of the kept answers")
    replay: bool = Field(description="Take every answer from the store; never open a model")
    max_failed: float = Field(ge=0, le=1, description="Share of failed requests a stage may have")
    prices: Prices
    transformers: TransformersSettings
    vllm: VllmSettings
    server: ServerSettings


class LlmSettings(LlmChoice):
    """`runtime.llm`: the settings of all stages, and what is different for some."""

    stages: dict[str, dict[str, Any]]

    @model_validator(mode="after")
    def _every_stage(self) -> Self:
        for stage in self.stages:
            stage_layout(stage)
            self.of(stage)
        return self

    def of(self, stage: str = "") -> LlmChoice:
        """The settings of one stage, or of all that have none of their own. `UserError` where its
        changes are wrong."""
        base = self.model_dump(exclude={"stages"})
        merged = _merged(base, self.stages.get(stage, {}))
        return checked(LlmChoice, merged, f"runtime.llm.stages.{stage}")


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `changes` put over it, mapping by mapping."""
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping) and key != "arguments"
        merged[key] = _merged(old, value) if both else value  # type: ignore[arg-type]
    return merged
