"""Stages as nodes of a graph: names, order, neighbours.

read_nodes() in project.py -> {"corpus": Node, ...}, in an order in which upstream comes first
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from schemas.errors import UserError


@dataclass(frozen=True)
class Resources:
    """What a stage occupies while it runs."""

    cpus: int = 1
    gpus: int = 0


@dataclass(frozen=True)
class Node:
    """One stage of `dvc.yaml`. `deps` and `outs` are paths from the project's folder."""

    name: str
    description: str
    command: str
    deps: tuple[str, ...]
    outs: tuple[str, ...]
    params: tuple[str, ...]
    upstream: tuple[str, ...]
    resources: Resources = Resources()
    retries: int = 0
    timeout: float | None = None
    """Seconds; None waits for ever."""


Nodes = Mapping[str, Node]


def parse_meta(stage: str, meta: Any) -> dict[str, Any]:
    """`resources`, `retries` and `timeout` of a stage's `meta`. Other keys are the stage's own."""
    meta = meta or {}
    fix = f"correct meta of stage {stage} in dvc.yaml"
    if not isinstance(meta, dict):
        raise UserError(f"meta of stage '{stage}' is not a mapping", fix=fix)
    resources = meta.get("resources") or {}
    if not isinstance(resources, dict) or set(resources) - {"cpus", "gpus"}:
        raise UserError(
            f"stage '{stage}' asks for resources {resources}", allowed=["cpus", "gpus"], fix=fix
        )
    for key, value in (*resources.items(), ("retries", meta.get("retries", 0))):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise UserError(f"{key} of stage '{stage}' is {value!r}, not a whole number", fix=fix)
    timeout = meta.get("timeout")
    if timeout is not None and (
        isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0
    ):
        raise UserError(f"timeout of stage '{stage}' is {timeout!r}, not seconds above 0", fix=fix)
    return {
        "resources": Resources(**resources),
        "retries": meta.get("retries", 0),
        "timeout": None if timeout is None else float(timeout),
    }


def upstream_first(edges: Mapping[str, Iterable[str]]) -> list[str]:
    """Names so that each comes after its upstream; among equals in the order given.

    `edges` maps a name to the names it needs. It has no cycle: DVC refuses those.
    """
    order: dict[str, None] = {}

    def visit(name: str) -> None:
        if name not in order:
            for needed in edges[name]:
                visit(needed)
            order[name] = None

    for name in edges:
        visit(name)
    return list(order)


def ancestors(nodes: Nodes, name: str) -> set[str]:
    """Everything that a stage needs, directly or not."""
    found: set[str] = set()
    pending = list(nodes[name].upstream)
    while pending:
        current = pending.pop()
        if current not in found:
            found.add(current)
            pending.extend(nodes[current].upstream)
    return found


def select(nodes: Nodes, targets: Iterable[str]) -> dict[str, Node]:
    """The targets and all they need, upstream first; every stage if no target is named."""
    wanted: set[str] = set()
    for target in targets:
        if target not in nodes:
            raise UserError(f"no stage '{target}'", allowed=nodes, fix="longline plan")
        wanted |= {target} | ancestors(nodes, target)
    return {name: node for name, node in nodes.items() if not wanted or name in wanted}
