"""The one adapter to DVC's internals: stages, their state, and the run-cache. Changes nothing.

    project = open_project(Path.cwd(), params_text)
    project.nodes                       -> {"corpus": Node, ...}, upstream first
    outlooks(project, ["evaluate"])     -> {"corpus": Outlook, ...}

DVC documents no API for its graph. What is used here (`Repo.index`, outputs' hashes, the run-cache)
is what `dvc repro` itself decides by; tests compare the two.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import Any

from pipelines.dag.nodes import Node, parse_meta, select, upstream_first
from pipelines.dag.outlook import Outlook, Will, changes, identity
from schemas.errors import UserError


@dataclass(frozen=True)
class Project:
    """A DVC project as it stands, under given parameters."""

    root: Path
    nodes: dict[str, Node]
    repo: Any
    stages: dict[str, Any]
    """DVC's own stage objects, by name."""
    producers: dict[str, str]
    """The stage that makes a path."""


def open_project(root: Path, params: str | None = None) -> Project:
    """Read `dvc.yaml` and `dvc.lock` as they are, with `params` in place of `params.yaml`."""
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    root = root.resolve()
    if not (root / "dvc.yaml").exists():
        raise UserError(f"no dvc.yaml in {root}", fix="run from the project's folder")
    try:
        repo = Repo(str(root), fs=None if params is None else _overlay(root, params))
        stages = {stage.name: stage for stage in repo.index.stages}
        for stage in stages.values():
            _hash_as_new(stage)
        edges = {
            stage.name: sorted(needed.name for needed in repo.index.graph.successors(stage))
            for stage in stages.values()
        }
    except (DvcException, OSError) as error:
        lock = (root / "dvc.lock").exists() and "dvc.lock" in str(error)
        raise UserError(
            f"cannot read the pipeline: {_message(error)}",
            fix="rm dvc.lock && dvc repro (results are restored from the cache)"
            if lock
            else "correct dvc.yaml; `dvc status` shows the same error",
        ) from error
    order = upstream_first(edges)
    return Project(
        root=root,
        nodes={name: _node(stages[name], tuple(edges[name])) for name in order},
        repo=repo,
        stages=stages,
        producers={out.def_path: name for name in order for out in stages[name].outs},
    )


def outlooks(
    project: Project, targets: Iterable[str] = (), force: bool = False
) -> dict[str, Outlook]:
    """What `dvc repro` of the targets would do with each stage, upstream first.

    A stage whose upstream is restored is judged by what will be restored, which the run-cache
    knows. With `force` every stage runs.
    """
    from dvc.exceptions import DvcException

    found: dict[str, Outlook] = {}
    expected: dict[str, Any] = {}  # path -> the output as it will be, None where unknown
    hashes: dict[str, Any] = {}  # path -> hash of a source, read once
    try:
        for name in select(project.nodes, targets):
            found[name] = _outlook(project, project.stages[name], found, expected, hashes, force)
    except (DvcException, OSError) as error:
        raise UserError(f"cannot tell the state of stage '{name}': {_message(error)}") from error
    return found


def _outlook(
    project: Project,
    stage: Any,
    found: dict[str, Outlook],
    expected: dict[str, Any],
    hashes: dict[str, Any],
    force: bool,
) -> Outlook:
    from dvc.dependency import ParamsDependency

    reasons: list[str] = []
    unknown: list[str] = []
    params: dict[str, Any] = {}
    sources: dict[str, str | None] = {}
    made: dict[str, str] = {}
    current: dict[Any, Any] = {}  # dependency -> what it will be: an output, or a hash
    never_ran = not any(out.hash_info for out in stage.outs)
    for dep in stage.deps:
        locked = dep.hash_info.value if dep.hash_info else None
        if isinstance(dep, ParamsDependency):
            current[dep] = dep.get_hash()
            params[dep.def_path] = current[dep].value
            reasons += changes(locked or {}, current[dep].value)
            continue
        makers = _makers(project, dep.def_path)
        if not makers:
            current[dep] = _on_disk(dep, hashes)
            sources[dep.def_path] = current[dep].value if current[dep] else None
            if current[dep] is None:
                reasons.append(f"{dep.def_path} does not exist; the stage will fail")
            elif current[dep].value != locked:
                reasons.append(f"{dep.def_path} changed")
            continue
        made[dep.def_path] = " ".join(found[maker].identity for maker in makers)
        current[dep] = _as_it_will_be(project, dep, makers, found, expected, hashes)
        if current[dep] is None:
            unknown += [maker for maker in makers if found[maker].will is not Will.FRESH]
        elif getattr(current[dep], "hash_info", current[dep]).value != locked:
            reasons.append(f"{dep.def_path} changed")
    if stage.cmd_changed:
        reasons.append("its command changed")
    whole = identity(stage.cmd, params, sources, made)

    if never_ran:
        reasons = ["it never ran here"]
    if force or stage.is_callback or stage.always_changed:
        reasons = ["forced" if force else "it always runs"]
        return _settled(stage, Will.RUN, reasons, whole, expected, None)
    if unknown:
        if not never_ran:
            reasons += [
                f"{upstream} will {'run' if found[upstream].will is Will.RUN else 'be restored'}"
                for upstream in dict.fromkeys(unknown)
            ]
        return _settled(stage, Will.RUN, reasons, whole, expected, None, certain=False)
    if stage.frozen:
        reasons = []
    if reasons:
        past = _past_run(project, stage, current)
    else:
        reasons = [f"{path} is {state}" for out in stage.outs for path, state in _lost(out)]
        past = _as_locked(project, stage)
        if not reasons:
            return _settled(stage, Will.FRESH, ["nothing changed"], whole, expected, past)
    if past is not None and past.outs_cached():
        return _settled(stage, Will.CACHED, reasons, whole, expected, past)
    return _settled(stage, Will.RUN, reasons, whole, expected, None)


def _settled(
    stage: Any,
    will: Will,
    reasons: list[str],
    whole: str,
    expected: dict[str, Any],
    after: Any,
    certain: bool = True,
) -> Outlook:
    """The outlook, with the outputs that the stage will have (`after`) noted for downstream."""
    known = {} if after is None else {out.def_path: out for out in after.outs}
    for out in stage.outs:
        expected[out.def_path] = known.get(out.def_path)
    return Outlook(stage.name, will, tuple(reasons), whole, certain)


def _past_run(project: Project, stage: Any, current: dict[Any, Any]) -> Any:
    """The stage as a past run with these inputs left it, from DVC's run-cache; None if none did."""
    from dvc.stage.cache import _get_cache_hash
    from dvc.stage.serialize import to_single_stage_lockfile

    if any(value is None for value in current.values()):
        return None
    before = [(dep, dep.hash_info, dep.meta, dep.obj) for dep in current]
    try:
        for dep, value in current.items():
            if hasattr(value, "hash_info"):
                dep.hash_info, dep.meta = value.hash_info, value.meta
            else:
                dep.save()  # as DVC does before it looks: the key holds more than the hash
        key = _get_cache_hash(to_single_stage_lockfile(stage), key=True)
    finally:
        for dep, *values in before:
            dep.hash_info, dep.meta, dep.obj = values
    cache = project.repo.stage_cache
    folder = Path(cache._get_cache_dir(key))
    if not folder.is_dir():
        return None
    newest = max(folder.iterdir(), key=lambda path: path.stat().st_mtime, default=None)
    entry = newest and cache._load_cache(key, newest.name)
    return cache._create_stage(entry, wdir=stage.wdir) if entry else None


def _as_locked(project: Project, stage: Any) -> Any:
    """The stage as `dvc.lock` has it."""
    from dvc.stage.serialize import to_single_stage_lockfile

    return project.repo.stage_cache._create_stage(to_single_stage_lockfile(stage), wdir=stage.wdir)


def _lost(out: Any) -> list[tuple[str, str]]:
    return [(str(path), str(state)) for path, state in (out.status() or {}).items()]


def _hash_as_new(stage: Any) -> None:
    """Hash what `dvc.lock` does not know as DVC will when it records it. Left alone DVC would take
    the hash of its version 2, and put folders in the cache to get it."""
    from dvc.dependency import ParamsDependency

    for item in (*stage.deps, *stage.outs):
        if not isinstance(item, ParamsDependency) and not item.hash_info:
            item.hash_name = "md5"


def _on_disk(dep: Any, hashes: dict[str, Any]) -> Any:
    """The hash of a dependency as it is in the workspace; None if it is not there."""
    if dep.def_path not in hashes:
        hashes[dep.def_path] = dep.get_hash() if dep.exists else None
    return hashes[dep.def_path]


def _as_it_will_be(
    project: Project,
    dep: Any,
    makers: list[str],
    found: dict[str, Outlook],
    expected: dict[str, Any],
    hashes: dict[str, Any],
) -> Any:
    """What a dependency that stages make will be: an output, or a hash; None where unknown."""
    if dep.def_path in project.producers:
        return expected.get(dep.def_path)
    if all(found[maker].will is Will.FRESH for maker in makers):
        return _on_disk(dep, hashes)
    around = [expected.get(path) for path in _upwards(dep.def_path) if path in project.producers]
    return _inside(around[0], dep) if around and around[0] is not None else None


def _inside(out: Any, dep: Any) -> Any:
    """A file or folder within an output folder, from the cache; None where it cannot tell."""
    tree = out.get_obj()
    key = out.fs.relparts(dep.fs_path, out.fs_path)
    if not hasattr(tree, "ls"):
        return None
    meta, hash_info = tree.get(key) or (None, None)
    if hash_info is None:
        folder = tree.get_obj(out.cache, key)
        meta, hash_info = dep.meta, folder.hash_info if folder else None
    return SimpleNamespace(meta=meta, hash_info=hash_info) if hash_info else None


def _makers(project: Project, path: str) -> list[str]:
    """The stages that make a path: all of it, or what lies in it."""
    maker = _producer(project, path)
    if maker is not None:
        return [maker]
    below = [name for out, name in project.producers.items() if path in _upwards(out)[1:]]
    return list(dict.fromkeys(below))


def _upwards(path: str) -> list[str]:
    return [str(part) for part in (PurePath(path), *PurePath(path).parents)]


def _producer(project: Project, path: str) -> str | None:
    """The stage whose output a dependency is, or lies in."""
    for part in _upwards(path):
        if part in project.producers:
            return project.producers[part]
    return None


def _node(stage: Any, upstream: tuple[str, ...]) -> Node:
    from dvc.dependency import ParamsDependency

    params = [dep for dep in stage.deps if isinstance(dep, ParamsDependency)]
    return Node(
        name=stage.name,
        description=stage.desc or "",
        command=stage.cmd,
        deps=tuple(dep.def_path for dep in stage.deps if dep not in params),
        outs=tuple(out.def_path for out in stage.outs),
        params=tuple(name for dep in params for name in dep.params),
        upstream=upstream,
        **parse_meta(stage.name, stage.meta),
    )


def _overlay(root: Path, params: str) -> Any:
    """The local file system, in which `params.yaml` has another text."""
    from dvc.fs import LocalFileSystem

    class Overlay(LocalFileSystem):
        def open(self, path: Any, mode: str = "r", **options: Any) -> Any:
            if "r" in mode and os.path.abspath(path) == str(root / "params.yaml"):
                return io.BytesIO(params.encode()) if "b" in mode else io.StringIO(params)
            return super().open(path, mode, **options)

    return Overlay()


def _message(error: BaseException) -> str:
    cause = error.__cause__
    return f"{error}" + (f" ({cause})" if cause is not None else "")
