"""Finding the code of a variant: `kind` in a stage's parameters names a module.

    distractors: {kind: tiered, ...}            -> stages/distractors/tiered.py
    distractors: {kind: my_project.nearest, ...} -> my_project/nearest.py on the Python path

A variant module holds `Config` (a `StageConfig` with the stage's parameters) and
`run(config, context)`. It imports heavy libraries inside functions, so that checking the
parameters stays fast.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from schemas.errors import UserError
from stages.runtime.layout import stage_layout

Model = TypeVar("Model", bound=BaseModel)


class Settings(BaseModel):
    """Base of all parameters: unknown keys are errors and values cannot be changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class StageConfig(Settings):
    """Base of a variant's parameters; the variant narrows `kind` to its own name."""

    kind: str


def variants(stage: str) -> list[str]:
    """The variants that come with Longline: modules of the stage's package without underscore."""
    folder = Path(__file__).parents[1] / stage
    return sorted(p.stem for p in folder.glob("*.py") if not p.stem.startswith("_"))


def load_variant(stage: str, kind: str) -> ModuleType:
    """Import the module that `kind` names. Raises `UserError` with the variants there are."""
    stage_layout(stage)
    if "." in kind:
        module = kind
    elif kind in variants(stage):
        module = f"stages.{stage}.{kind}"
    else:
        raise UserError(
            f"{stage}.kind: no variant '{kind}'",
            allowed=variants(stage),
            fix=f"longline params compose {stage}=<variant>, or name a module of your own "
            "(package.module)",
        )
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and module.startswith(error.name):
            raise UserError(
                f"{stage}.kind: no module '{module}' on the Python path",
                allowed=variants(stage),
                fix="put the module beside dvc.yaml, or install its package",
            ) from error
        raise
    for attribute in ("Config", "run"):
        if not hasattr(loaded, attribute):
            raise UserError(
                f"{module} is not a variant: it has no `{attribute}`",
                fix="see CONTRIBUTING.md, 'Add a variant'",
            )
    return loaded


def validate(stage: str, values: Any) -> StageConfig:
    """A stage's parameters as its variant's `Config`. `UserError` names the allowed keys."""
    if not isinstance(values, dict) or not isinstance(values.get("kind"), str):
        raise UserError(
            f"params.yaml: '{stage}' has no kind", allowed=variants(stage),
            fix="longline params compose",
        )  # fmt: skip
    config_class: type[StageConfig] = load_variant(stage, values["kind"]).Config
    return checked(config_class, values, stage)


def checked(model: type[Model], values: Any, where: str) -> Model:
    """Validate with pydantic; the first problem becomes one readable `UserError`."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join([where, *(str(part) for part in first["loc"])])
        if first["type"] == "extra_forbidden":
            raise UserError(
                f"unknown parameter '{path}'",
                allowed=_keys_at(model, first["loc"][:-1]),
                fix="correct the key in conf/ and run `longline params compose`",
            ) from error
        given = first.get("input")
        shown = "" if first["type"] == "missing" else f" (given: {given!r})"
        raise UserError(
            f"parameter '{path}': {first['msg']}{shown}",
            fix="correct the value in conf/ (or the -S override) and run `longline params compose`",
        ) from error


def _keys_at(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """The keys of the (nested) model at `location`; best effort through unions and lists."""
    current: Any = model
    for part in location:
        fields = getattr(current, "model_fields", {})
        if part in fields:
            current = _model_in(fields[part].annotation)
    return sorted(getattr(current, "model_fields", {}))


def _model_in(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        found = _model_in(argument)
        if found is not None:
            return found
    return None
