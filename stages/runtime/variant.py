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
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from schemas.errors import UserError
from stages.runtime.layout import stage_layout

Model = TypeVar("Model", bound=BaseModel)


class Settings(BaseModel):
    """Base of all parameters: unknown keys and NaN are errors and values cannot be changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _weights(values: tuple[float, ...]) -> tuple[float, ...]:
    if min(values) < 0 or sum(values) <= 0:
        raise ValueError("the weights must not be negative and one must be positive")
    return values


Weights = Annotated[tuple[float, ...], Field(min_length=1), AfterValidator(_weights)]
"""What to draw by: none negative, and not all zero."""


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
    if "." in kind and all(part.isidentifier() for part in kind.split(".")):
        module = kind
        if str(Path.cwd()) not in sys.path:  # the command `longline` has only its own folder there
            sys.path.append(str(Path.cwd()))
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
        if error.name is not None and f"{module}.".startswith(f"{error.name}."):
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
        # A mistyped key is both unknown and missing; the unknown one says what was meant.
        found = error.errors(include_url=False)
        first = next((e for e in found if e["type"] == "extra_forbidden"), found[0])
        path = ".".join([where, *_user_path(model, first["loc"])[0]])
        if first["type"] == "extra_forbidden":
            raise UserError(
                f"unknown parameter '{path}'",
                allowed=_keys_at(model, first["loc"][:-1]),
                fix="correct the key in conf/ and run `longline params compose`",
            ) from error
        if first["type"] == "union_tag_invalid":
            raise UserError(
                f"parameter '{path}.kind': there is no '{first['ctx']['tag']}'",
                allowed=[tag.strip(" '") for tag in first["ctx"]["expected_tags"].split(",")],
                fix="correct the value in conf/ and run `longline params compose`",
            ) from error
        given = first.get("input")
        # A whole mapping is no news: the message says which of its values disagree.
        told = first["type"] == "missing" or isinstance(given, dict)
        shown = "" if told else f" (given: {given!r})"
        raise UserError(
            f"parameter '{path}': {first['msg'].removeprefix('Value error, ')}{shown}",
            fix="correct the value in conf/ (or the -S override) and run `longline params compose`",
        ) from error


def _keys_at(model: type[BaseModel], location: Sequence[int | str]) -> list[str]:
    """The keys of the (nested) model at pydantic's `location`; none where there is no model."""
    return sorted(getattr(_user_path(model, location)[1], "model_fields", {}))


def _user_path(model: type[BaseModel], location: Sequence[int | str]) -> tuple[list[str], Any]:
    """pydantic's `location` as the keys that the user wrote, and the type that is there.

    In a union pydantic puts the member that it tried into the location; that is no key.
    """
    current: Any = model
    keys = []
    for part in location:
        members = _members(current)
        if len(members) > 1:
            current = next((member for member in members if _is_called(member, part)), None)
            continue
        if part != "[key]":
            keys.append(str(part))
        current = _inside(members[0], part)
    members = _members(current)
    return keys, members[0] if len(members) == 1 else None


def _members(annotation: Any) -> list[Any]:
    """The members of a union; any other type is its own only member. None does not count."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) not in (Union, UnionType):
        return [annotation]
    return [
        member
        for argument in get_args(annotation)
        if argument is not type(None)
        for member in _members(argument)
    ]


def _is_called(member: Any, part: int | str) -> bool:
    """Whether pydantic names this member of a union `part`: by its `kind`, or by its class."""
    kind = getattr(member, "model_fields", {}).get("kind")
    return part == getattr(member, "__name__", None) or (
        kind is not None and part in get_args(kind.annotation)
    )


def _inside(annotation: Any, part: int | str) -> Any:
    """The type of a model's field, of a mapping's values, or of a sequence's items."""
    if hasattr(annotation, "model_fields"):
        field = annotation.model_fields.get(part)
        return None if field is None else field.annotation
    arguments = get_args(annotation)
    return arguments[0 if isinstance(part, int) else -1] if arguments else None
