"""The look that every page of Longline shares: style sheet, macros and number formats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from pipelines.report import estimates

TEMPLATES = Path(__file__).parent / "templates"


def environment(*folders: Path) -> Environment:
    """Jinja with escaping on for every template, and the number formats as filters.

    Templates are looked for in `folders`, then among the report's own.
    """
    loaded = Environment(
        loader=FileSystemLoader([*folders, TEMPLATES]), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    filters: dict[str, Callable[..., Any]] = {
        "num": estimates.number,
        "count": estimates.count,
        "seconds": estimates.seconds,
    }
    loaded.filters.update(filters)
    style = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    loaded.globals["style"] = Markup(style)  # noqa: S704  our own file
    return loaded
