"""Jinja for YAML and shell: `<< value | json >>` and `<< value | sh >>`, `<% if %>`, `<# note #>`.

These delimiters leave `{{ }}` to Prefect and `${#name}` to the shell. A name that is missing is an
error. Every value goes through one of the two filters, so that it is one scalar or one word.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pipelines.deploy.kinds import one_line

TEMPLATES = Path(__file__).parent / "templates"


def render(template: str, **values: Any) -> str:
    """The text of a template. Raises `ValueError` for a word of the shell that is not one line."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined,
        autoescape=False,  # noqa: S701  no HTML; the filters quote
        variable_start_string="<<", variable_end_string=">>",
        block_start_string="<%", block_end_string="%>",
        comment_start_string="<#", comment_end_string="#>",
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters["json"] = _json
    environment.filters["sh"] = lambda value: shlex.quote(one_line(str(value)))
    return environment.get_template(template).render(values)


def _json(value: Any) -> str:
    """JSON, which is YAML too: text cannot end its own quotes, nor become another type."""
    return json.dumps(value, ensure_ascii=False)
