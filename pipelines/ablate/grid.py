"""What an ablation varies: axes, their values, and the cells that they span.

grid = parse_grid(["distractors=random,tiered", "seed.train=0,1,2"])
grid = load_grid(Path.cwd(), "reward")                      # conf/ablation/reward.yaml
len(cells(grid))                                             -> 6
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml
from pydantic import Field

from pipelines.params import sweep
from schemas.errors import UserError
from stages.runtime.variant import Settings, checked

FOLDER = Path("conf") / "ablation"
METRICS = ("evaluate.policy_reward", "evaluate.reward_gain", "evaluate.pair_accuracy")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,60}")


class GridFile(Settings):
    """`conf/ablation/NAME.yaml`."""

    description: str = ""
    axes: dict[str, list[str | int | float | bool]] = Field(
        description="A key of the configuration, and the values it takes"
    )
    overrides: list[str] = Field(default=[], description="The same in every cell")
    baseline: dict[str, str | int | float | bool] = Field(
        default={}, description="The arm to compare with; default: the first value of each axis"
    )
    metrics: list[str] = Field(default=list(METRICS), description="STAGE.key of reports/STAGE.json")


@dataclass(frozen=True)
class Grid:
    """Axes with their values as text. Axes under `seed.` are repetitions, the others are arms."""

    name: str
    axes: tuple[tuple[str, tuple[str, ...]], ...]
    overrides: tuple[str, ...] = ()
    baseline: tuple[tuple[str, str], ...] = ()
    metrics: tuple[str, ...] = METRICS
    description: str = ""


@dataclass(frozen=True)
class Cell:
    """One choice of a value for every axis."""

    name: str
    """The name of its experiment."""
    settings: tuple[tuple[str, str], ...]
    seeds: tuple[tuple[str, str], ...]
    overrides: tuple[str, ...]
    """As `longline run -S` takes them."""


def choose_grid(root: Path, grid: str, overrides: Sequence[str], name: str = "") -> Grid:
    """A grid that the project ships, varied by overrides, or one of overrides alone."""
    return extend(load_grid(root, grid), overrides) if grid else parse_grid(overrides, name)


def load_grid(root: Path, name: str) -> Grid:
    """A grid that the project ships. Raises `UserError` with the grids there are."""
    path = root / FOLDER / f"{name}.yaml"
    if not path.is_file():
        raise UserError(
            f"no ablation '{name}'",
            allowed=[file.stem for file in (root / FOLDER).glob("*.yaml")],
            fix="name one of these, or give the axes: longline ablate -S KEY=VALUE,VALUE",
        )
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise UserError(f"{path} is not YAML: {error}") from error
    file = checked(GridFile, raw, str(path.relative_to(root)))
    return _checked(
        Grid(
            name=name,
            axes=tuple((key, tuple(map(_text, values))) for key, values in file.axes.items()),
            overrides=tuple(file.overrides),
            baseline=tuple((key, _text(value)) for key, value in file.baseline.items()),
            metrics=tuple(file.metrics),
            description=file.description,
        )
    )


def parse_grid(overrides: Sequence[str], name: str = "") -> Grid:
    """A grid from the command line: overrides with several values are axes, others are fixed."""
    axes: dict[str, tuple[str, ...]] = {}
    fixed = []
    for override in overrides:
        key, values = sweep(override)
        if len(values) == 1:
            fixed.append(override)
        elif key in axes:
            raise UserError(f"{key} is varied twice", fix=f"-S {key}=ALL,VALUES,AT,ONCE")
        else:
            axes[key] = tuple(values)
    grid = Grid(name or "-".join(_short(key) for key in axes), tuple(axes.items()), tuple(fixed))
    return _checked(grid)


def extend(grid: Grid, overrides: Sequence[str]) -> Grid:
    """The grid with axes replaced or added, and values fixed, from the command line."""
    more = parse_grid(overrides, grid.name) if overrides else None
    if more is None:
        return grid
    axes = {**dict(grid.axes), **dict(more.axes)}
    fixed = {sweep(override)[0] for override in more.overrides}
    return _checked(
        replace(
            grid,
            axes=tuple((key, values) for key, values in axes.items() if key not in fixed),
            overrides=(*grid.overrides, *more.overrides),
        )
    )


def cells(grid: Grid) -> tuple[Cell, ...]:
    """Every combination, the last axis fastest, with names that differ."""
    keys = [key for key, _ in grid.axes]
    found, names = [], set[str]()
    for values in itertools.product(*(values for _, values in grid.axes)):
        chosen = list(zip(keys, values, strict=True))
        name = "-".join([grid.name, *(_slug(key, value) for key, value in chosen)])[:120]
        while name in names:
            name += "x"
        names.add(name)
        found.append(
            Cell(
                name=name,
                settings=tuple(pair for pair in chosen if not pair[0].startswith("seed.")),
                seeds=tuple(pair for pair in chosen if pair[0].startswith("seed.")),
                overrides=(*grid.overrides, *(f"{key}={value}" for key, value in chosen)),
            )
        )
    return tuple(found)


def baseline(grid: Grid) -> dict[str, str]:
    """The settings of the arm that the others are compared with."""
    first = {key: values[0] for key, values in grid.axes if not key.startswith("seed.")}
    return first | dict(grid.baseline)


def _checked(grid: Grid) -> Grid:
    if not grid.axes:
        raise UserError(
            "nothing varies: no axis has values",
            fix=f"longline ablate -S distractors=random,tiered, or the name of a grid in {FOLDER}/",
        )
    if not _NAME.fullmatch(grid.name):
        raise UserError(
            f"'{grid.name}' cannot name an ablation",
            allowed=["letters, digits, - and _, at most 61"],
            fix="--name NAME",
        )
    for key, values in grid.axes:
        if not values or len(set(values)) < len(values):
            raise UserError(
                f"axis {key} has {'no value' if not values else 'a value twice'}",
                fix=f"name each value once: -S {key}=A,B",
            )
    wrong = {
        key: value
        for key, value in grid.baseline
        if value not in dict(grid.axes).get(key, ()) or key.startswith("seed.")
    }
    if wrong:
        raise UserError(
            f"the baseline has {wrong}, which no arm has",
            allowed=[f"{key}={value}" for key, values in grid.axes for value in values],
        )
    return grid


def _text(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _short(key: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", key.split(".")[-1].split("/")[-1]).strip("_") or "axis"


def _slug(key: str, value: str) -> str:
    word = re.sub(r"[^A-Za-z0-9_.]+", "_", value).strip("_.") or "value"
    return f"{_short(key)}_{word}"[:40] if key.startswith("seed.") else word[:40]
