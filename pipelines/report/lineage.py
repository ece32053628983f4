"""The stage graph as SVG: one box a stage, top to bottom, with what it made and from what.

    corpus        documents 240 · chunks 452
      |
    synthesize    questions 1,398
      |  \\
    ...

Stages and edges come from dvc.yaml. An edge that others imply is not drawn (policy reads
documents, but that follows from the stages between); each box lists everything that it reads.
Hashes come from dvc.lock. Two drawings are made: wide, and narrow for a phone.
"""

from __future__ import annotations

import json
import struct
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from markupsafe import Markup

from pipelines.report.facts import Workspace

_GUTTER, _LANE, _GAP, _LINE = 14, 13, 22, 19


@dataclass(frozen=True)
class Output:
    """A dataset or model of a stage: how much it is, and its hash if DVC knows it."""

    path: str
    size: str
    hash: str


@dataclass(frozen=True)
class Node:
    stage: str
    variant: str
    reads: tuple[str, ...]
    outputs: tuple[Output, ...]
    parents: tuple[str, ...]
    """The stages it follows directly: edges that no other path implies."""


def lineage(workspace: Workspace) -> list[Node]:
    """The stages that make data or models, each after all that it depends on."""
    made: dict[str, str] = {}
    reads: dict[str, list[str]] = {}
    for stage, spec in workspace.pipeline.items():
        outs = [path for path in map(_path, spec.get("outs", ())) if _tracked(path)]
        if outs:
            made.update(dict.fromkeys(outs, stage))
            reads[stage] = [path for path in map(_path, spec.get("deps", ())) if _tracked(path)]
    direct = {
        stage: {made[path] for path in paths if path in made and made[path] != stage}
        for stage, paths in reads.items()
    }
    order = _topological(direct)
    ancestors: dict[str, set[str]] = {}
    for stage in order:
        ancestors[stage] = direct[stage].union(*(ancestors[p] for p in direct[stage]), set())
    return [
        Node(
            stage,
            workspace.variant(stage),
            tuple(path.split("/", 1)[1] for path in reads[stage]) or _inputs(workspace, stage),
            tuple(_output(workspace, p, stage) for p, maker in made.items() if maker == stage),
            tuple(
                p for p in order
                if p in direct[stage]
                and not any(p in ancestors[q] for q in direct[stage] if q != p)
            ),
        )
        for stage in order
    ]  # fmt: skip


def draw(nodes: list[Node], width: int) -> Markup:
    """The SVG at a width in pixels: below 600 the parts of a box stand under each other."""
    wide = width >= 600
    lanes = _lanes(nodes)
    left = _GUTTER + _LANE * (max(lanes.values(), default=0) + 1)
    tops, boxes, top = {}, [], 6
    for node in nodes:
        lines = _lines(node, wide, (width - left) / 7.4)
        made = sum(css == "t" for css, _ in lines)
        beside = max(made, len(lines) - made, 2)
        height = 16 + _LINE * (beside if wide else len(lines) + 1)
        tops[node.stage] = (top, height)
        boxes.append(_box(node, lines, left, top, width - left - 2, height, wide))
        top += height + _GAP
    edges = [
        _edge(tops[parent], tops[node.stage], left, width, lanes.get((parent, node.stage)))
        for node in nodes for parent in node.parents
    ]  # fmt: skip
    label = "Stage graph: " + "; ".join(
        f"{node.stage} after {', '.join(node.parents) or 'the input files'}" for node in nodes
    )
    return Markup(  # noqa: S704  every text is escaped
        f'<svg class="graph" viewBox="0 0 {width} {top - _GAP + 6}" width="{width}" role="img" '
        f'aria-label="{escape(label)}">{"".join(edges)}{"".join(boxes)}</svg>'
    )


def count_parameters(folder: Path) -> int | None:
    """Parameters of the safetensors files of a model, read from their headers."""
    files = sorted(folder.glob("*.safetensors"))
    total = 0
    for path in files:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
        for tensor, spec in header.items():
            if tensor != "__metadata__":
                size = 1
                for side in spec["shape"]:
                    size *= side
                total += size
    return total if files else None


def _path(entry: Any) -> str:
    return next(iter(entry)) if isinstance(entry, Mapping) else str(entry)


def _tracked(path: str) -> bool:
    return path.startswith(("data/", "models/"))


def _inputs(workspace: Workspace, stage: str) -> tuple[str, ...]:
    path = (workspace.params.get(stage) or {}).get("path")
    return (str(path),) if path else ()


def _topological(direct: Mapping[str, set[str]]) -> list[str]:
    order: list[str] = []
    left = list(direct)
    while left:
        ready = next((s for s in left if direct[s] <= set(order)), left[0])
        order.append(ready)
        left.remove(ready)
    return order


def _output(workspace: Workspace, path: str, stage: str) -> Output:
    kind, name = path.split("/", 1)
    if kind == "data":
        dataset = workspace.datasets.get(name)
        rows = 0 if dataset is None else dataset.row_count
        size = "not run yet" if dataset is None else f"{rows:,} row{'s' * (rows != 1)}"
    else:
        folder = workspace.root / path
        parameters = count_parameters(folder)
        vocabulary = workspace.metrics.get(stage, {}).get("vocabulary")
        if parameters is not None:
            size = f"{parameters:,} parameters"
        elif folder.exists():
            size = f"{vocabulary:,} tokens" if vocabulary else "present"
        else:
            size = "not run yet"
    locked = {out["path"]: out.get("md5", "") for out in
              workspace.lock.get(stage, {}).get("outs", ())}  # fmt: skip
    return Output(path, size, locked.get(path, "")[:8])


def _lanes(nodes: list[Node]) -> dict[tuple[str, str], int]:
    """A lane of the gutter for each edge that passes other boxes; crossing edges get two."""
    place = {node.stage: i for i, node in enumerate(nodes)}
    spans = sorted(
        (place[parent], place[node.stage], parent, node.stage)
        for node in nodes for parent in node.parents
        if place[node.stage] - place[parent] > 1
    )  # fmt: skip
    ends: list[int] = []
    lanes = {}
    for start, end, parent, stage in spans:
        lane = next((i for i, busy in enumerate(ends) if busy <= start), len(ends))
        ends[lane : lane + 1] = [end]
        lanes[parent, stage] = lane
    return lanes


def _lines(node: Node, wide: bool, room: float) -> list[tuple[str, str]]:
    """Lines of (CSS class, text) below the stage's name."""
    limit = int(room * (0.4 if wide else 1.0)) - (0 if wide else 3)
    texts = [("t", f"{out.path}: {out.size}" + (f" · {out.hash}" if out.hash else ""))
             for out in node.outputs]  # fmt: skip
    texts.append(("m", "reads " + (", ".join(node.reads) or "nothing")))
    return [
        (css, line)
        for css, words in texts
        for line in textwrap.wrap(words, limit, break_long_words=False)
    ]


def _box(node: Node, lines: list[tuple[str, str]], x: int, y: int, width: int, height: int,
         wide: bool) -> str:  # fmt: skip
    parts = [f'<rect class="box" x="{x}" y="{y}" width="{width}" height="{height}" rx="7"/>']

    def text(css: str, at: float, line: int, words: str) -> None:
        parts.append(
            f'<text class="{css}" x="{at:g}" y="{y + 20 + _LINE * line}">{escape(words)}</text>'
        )

    text("n", x + 12, 0, node.stage)
    if wide:
        text("m", x + 12, 1, node.variant)
        outputs = [line for line in lines if line[0] == "t"]
        for i, (css, words) in enumerate(outputs):
            text(css, x + width * 0.20, i, words)
        for i, (css, words) in enumerate(line for line in lines if line[0] == "m"):
            text(css, x + width * 0.60, i, words)
    else:
        parts.append(
            f'<text class="m" x="{x + width - 12}" y="{y + 20}" text-anchor="end">'
            f"{escape(node.variant)}</text>"
        )
        for i, (css, words) in enumerate(lines, 1):
            text(css, x + 12, i, words)
    return "".join(parts)


def _edge(start: tuple[int, int], end: tuple[int, int], left: int, width: int,
          lane: int | None) -> str:  # fmt: skip
    bottom, top = start[0] + start[1], end[0]
    if lane is None:
        x = left + 26
        return (f'<path class="edge" d="M{x} {bottom}V{top - 5}"/>'
                f'<path class="tip" d="M{x - 4} {top - 6}h8l-4 6z"/>')  # fmt: skip
    x = left - _LANE * (lane + 1)
    a, b = start[0] + start[1] - 12, top + 12
    return (f'<path class="edge" d="M{left} {a}H{x + 6}Q{x} {a} {x} {a + 6}V{b - 6}'
            f'Q{x} {b} {x + 6} {b}H{left - 5}"/>'
            f'<path class="tip" d="M{left - 6} {b - 4}v8l6 -4z"/>')  # fmt: skip
