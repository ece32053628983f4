"""What a run shows in Prefect beside its states: the plan, progress, metrics, plots, the report.

An artifact that cannot be written (a server that went away) never fails a run: it is logged.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.artifacts import (
    create_image_artifact,
    create_link_artifact,
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.logging import get_logger

from pipelines.dag.nodes import Node
from pipelines.plan import Plan
from pipelines.plan_text import markdown

MOST_ROWS = 100
_FOLDERS = ("reports", "plots")
"""Left out of the names of artifacts."""


def _shown(make: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(make)
    def safely(*arguments: Any) -> Any:
        try:
            return make(*arguments)
        except Exception as error:
            get_logger("longline").warning("artifact of %s not shown: %s", make.__name__, error)
            return None

    return safely


@_shown
def show_plan(plan: Plan) -> Any:
    return create_markdown_artifact(
        key="plan", markdown=markdown(plan), description="What this run does, and why"
    )


@_shown
def show_markdown(name: str, text: str) -> Any:
    return create_markdown_artifact(key=artifact_key(name), markdown=text)


@_shown
def start_progress() -> Any:
    return create_progress_artifact(0.0, key="progress", description="Stages done")


@_shown
def set_progress(artifact: UUID, done: int, total: int) -> None:
    update_progress_artifact(
        artifact, 100.0 * done / max(total, 1), description=f"{done} of {total} stages done"
    )


@_shown
def show_metrics(root: Path, node: Node) -> None:
    """The metrics and curves among a stage's outputs, as tables and images."""
    for out in node.outs:
        path = root / out
        kind = "metrics" if path.suffix == ".json" else "curves"
        names = [part for part in Path(out).with_suffix("").parts if part not in _FOLDERS]
        key = artifact_key("-".join([*names, kind]))
        description = f"{out} of stage {node.name}"
        if path.suffix == ".json" and path.is_file():
            values = flat(json.loads(path.read_text(encoding="utf-8")))
            if 0 < len(values) <= MOST_ROWS:
                table = [{"metric": name, "value": value} for name, value in values.items()]
                create_table_artifact(key=key, table=table, description=description)
        elif path.suffix == ".csv" and path.is_file():
            with path.open(encoding="utf-8", newline="") as file:
                rows = list(csv.DictReader(file))
            image = draw(rows)
            if image is not None:
                url = f"data:image/png;base64,{base64.b64encode(image).decode()}"
                create_image_artifact(key=key, image_url=url, description=description)
            elif rows:
                create_table_artifact(key=key, table=rows[:MOST_ROWS], description=description)


@_shown
def show_report(path: Path, text: str) -> None:
    create_link_artifact(
        key=artifact_key(f"report-{path.parent.name}"), link=path.as_uri(), link_text=text,
        description=f"{path} (browsers open file links only when pasted into the address bar)",
    )  # fmt: skip


def flat(values: Any, prefix: str = "") -> dict[str, Any]:
    """Nested metrics with dotted names; what is neither a mapping nor a scalar becomes JSON."""
    if not isinstance(values, dict):
        return {prefix or "value": json.dumps(values) if isinstance(values, list) else values}
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= flat(value, f"{prefix}.{key}" if prefix else str(key))
    return found


def draw(rows: Sequence[Mapping[str, str]]) -> bytes | None:
    """Curves as PNG: every numeric column over the first one, in small multiples.

    None where the first column is not a number in every row, so that there is no curve.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = list(rows[0]) if rows else []
    columns = {name: [_number(row[name]) for row in rows] for name in names}
    curves = [name for name in names[1:] if None not in columns[name]]
    if not curves or None in columns[names[0]]:
        return None
    figure = Figure(figsize=(7, 1.8 * len(curves)), layout="constrained")
    for place, name in enumerate(curves, start=1):
        axes = figure.add_subplot(len(curves), 1, place)
        axes.plot(columns[names[0]], columns[name], linewidth=1)
        axes.set_ylabel(name, fontsize=8)
        axes.tick_params(labelsize=7)
        if place == len(curves):
            axes.set_xlabel(names[0], fontsize=8)
    target = io.BytesIO()
    FigureCanvasAgg(figure).print_png(target)
    return target.getvalue()


def artifact_key(name: str) -> str:
    """Prefect takes lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _number(text: str | None) -> Any:
    try:
        return float(text or "nan")
    except ValueError:
        return None
