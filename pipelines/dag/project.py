"""The one adapter to DVC's internals: stages, their state, and the run-cache. Changes nothing.

    project = open_project(Path.cwd(), params_text)
    project.nodes                       -> {"corpus": Node, ...}, upstream first
    outlooks(project, ["evaluate"])     -> {"corpus": Outlook, ...}

DVC documents no API for its graph. What is used here (`Repo.index`, outputs' hashes, the run-cache)
is what `dvc repro` itself decides by; tests compare the two.
"""

from __future__ import annotations

import hashlib
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
    params: str | None = None
    """The text that stands for `params.yaml`; None where it is as it is."""

    @property
    def own(self) -> list[str]:
        """The stages of the project's own `dvc.yaml`, not of those in folders below it."""
        return [name for name in self.nodes if ":" not in name]


def open_project(root: Path, params: str | None = None) -> Project:
    """Read `dvc.yaml` and `dvc.lock` as they are, with `params` in place of `params.yaml`."""
    from dvc.exceptions import DvcException
    from dvc.repo import Repo
    from dvc.stage import PipelineStage

    root = root.resolve()
    if not (root / "dvc.yaml").exists():
        raise UserError(f"no dvc.yaml in {root}", fix="run from the project's folder")
    try:
        repo = Repo(str(root), fs=None if params is None else _overlay(root, params))
        names = {  # what `dvc add` tracks is a stage to DVC, and a source here
            stage: _address(root, stage)
            for stage in repo.index.stages
            if isinstance(stage, PipelineStage)
        }
        edges: dict[str, list[str]] = {}
        for stage, name in names.items():
            _hash_as_new(stage)
            needed = [] if stage.frozen else repo.index.graph.successors(stage)
            edges[name] = sorted(names[one] for one in needed if one in names)
    except (DvcException, OSError) as error:
        lock = (root / "dvc.lock").exists() and "dvc.lock" in str(error)
        raise UserError(
            f"cannot read the pipeline: {_message(error)}",
            fix="rm dvc.lock && dvc repro (results are restored from the cache)"
            if lock
            else "correct dvc.yaml; `dvc status` shows the same error",
        ) from error
    order = upstream_first(edges)
    stages = {name: stage for stage, name in names.items()}
    return Project(
        root=root,
        nodes={name: _node(root, name, stages[name], tuple(edges[name])) for name in order},
        repo=repo,
        stages=stages,
        producers={_path(root, out): name for name in order for out in stages[name].outs},
        params=params,
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
        for name in select(project.nodes, list(targets) or project.own):
            found[name] = _outlook(project, name, found, expected, hashes, force)
    except (DvcException, OSError) as error:
        raise UserError(f"cannot tell the state of stage '{name}': {_message(error)}") from error
    return found


def _outlook(
    project: Project,
    name: str,
    found: dict[str, Outlook],
    expected: dict[str, Any],
    hashes: dict[str, Any],
    force: bool,
) -> Outlook:
    from dvc.dependency import ParamsDependency

    stage = project.stages[name]
    if stage.frozen:
        return _frozen(project, name, expected)
    reasons: list[str] = []
    unknown: list[str] = []
    params: dict[str, Any] = {}
    sources: dict[str, str | None] = {}
    made: dict[str, str] = {}
    current: dict[Any, Any] = {}  # dependency -> what it will be: an output, or a hash
    never_ran = not any(item.hash_info for item in (*stage.deps, *stage.outs))
    for dep in stage.deps:
        locked = dep.hash_info.value if dep.hash_info else None
        if isinstance(dep, ParamsDependency):
            current[dep] = dep.get_hash()
            params[dep.def_path] = current[dep].value
            reasons += changes(locked or {}, current[dep].value)
            continue
        path = _path(project.root, dep)
        makers = _makers(project, path)
        if not makers:
            current[dep] = _on_disk(project, dep, hashes)
            sources[path] = current[dep].value if current[dep] else None
            if current[dep] is None:
                reasons.append(f"{path} does not exist; the stage will fail")
            elif current[dep].value != locked:
                reasons.append(f"{path} changed")
            continue
        made[path] = " ".join(found[maker].identity for maker in makers)
        current[dep] = _as_it_will_be(project, dep, makers, found, expected, hashes)
        if current[dep] is None:
            unknown += [maker for maker in makers if found[maker].will is not Will.FRESH]
        elif getattr(current[dep], "hash_info", current[dep]).value != locked:
            reasons.append(f"{path} changed")
    if stage.cmd_changed:
        reasons.append("its command changed")
    whole = identity(stage.cmd, params, sources, made)
    own = identity(stage.cmd, params, sources, {})

    if never_ran:
        reasons = ["it never ran here"]

    def settled(will: Will, why: list[str], after: Any = None, certain: bool = True) -> Outlook:
        _expect(project, stage, after, expected)
        return Outlook(name, will, tuple(why), whole, own, certain)

    if force or stage.is_callback or stage.always_changed:
        return settled(Will.RUN, ["forced" if force else "it always runs"])
    if unknown:
        if not never_ran:
            reasons += [
                f"{upstream} will {'run' if found[upstream].will is Will.RUN else 'be restored'}"
                for upstream in dict.fromkeys(unknown)
            ]
        return settled(Will.RUN, reasons, certain=False)
    if reasons:
        past = _past_run(project, stage, current)
    else:
        reasons = [f"{path} is {state}" for out in stage.outs for path, state in _lost(out)]
        past = _as_locked(project, stage)
        if not reasons:
            return settled(Will.FRESH, ["nothing changed"], past)
    if past is not None and past.outs_cached() and _restorable(stage):
        return settled(Will.CACHED, reasons, past)
    return settled(Will.RUN, reasons)


def _frozen(project: Project, name: str, expected: dict[str, Any]) -> Outlook:
    """DVC leaves a frozen stage alone, and only asks for its outputs."""
    stage = project.stages[name]
    outs = {_path(project.root, out): out for out in stage.outs}
    gone = [path for path, out in outs.items() if not out.exists]
    hashes = {path: out.hash_info.value if out.hash_info else None for path, out in outs.items()}
    _expect(project, stage, None if gone else _as_locked(project, stage), expected)
    whole = identity(stage.cmd, {}, hashes, {})
    return Outlook(
        name,
        Will.RUN if gone else Will.FRESH,
        tuple(f"{path} does not exist; the stage is frozen and will fail" for path in gone)
        or ("it is frozen",),
        identity=whole,
        own=whole,
    )


def _expect(project: Project, stage: Any, after: Any, expected: dict[str, Any]) -> None:
    """Note the outputs that the stage will have (`after`), for downstream."""
    known = {} if after is None else {_path(project.root, out): out for out in after.outs}
    for out in stage.outs:
        path = _path(project.root, out)
        expected[path] = known.get(path)


def _restorable(stage: Any) -> bool:
    """Whether DVC looks for past runs of a stage at all."""
    return bool(stage.cmd and stage.deps and stage.outs) and not any(
        out.persist or not out.is_in_repo for out in stage.outs
    )


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
            elif _overlaid(project, dep):
                dep.hash_info, dep.meta = value, type(dep.meta)()
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
    """The stage as `dvc.lock` has it; None where it makes nothing."""
    from dvc.stage.serialize import to_single_stage_lockfile

    if not stage.outs:
        return None
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


def _on_disk(project: Project, dep: Any, hashes: dict[str, Any]) -> Any:
    """The hash of a dependency as it is in the workspace; None if it is not there."""
    if _overlaid(project, dep):
        text = (project.params or "").encode()
        return type(dep.hash_info)("md5", hashlib.md5(text, usedforsecurity=False).hexdigest())
    path = _path(project.root, dep)
    if path not in hashes:
        hashes[path] = dep.get_hash() if dep.exists else None
    return hashes[path]


def _overlaid(project: Project, dep: Any) -> bool:
    """Whether a dependency is `params.yaml` with another text."""
    return project.params is not None and _path(project.root, dep) == "params.yaml"


def _as_it_will_be(
    project: Project,
    dep: Any,
    makers: list[str],
    found: dict[str, Outlook],
    expected: dict[str, Any],
    hashes: dict[str, Any],
) -> Any:
    """What a dependency that stages make will be: an output, or a hash; None where unknown."""
    path = _path(project.root, dep)
    if path in project.producers:
        return expected.get(path)
    if all(found[maker].will is Will.FRESH for maker in makers):
        return _on_disk(project, dep, hashes)
    around = [expected.get(part) for part in _upwards(path) if part in project.producers]
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
        meta, hash_info = type(dep.meta)(), folder.hash_info if folder else None
    return SimpleNamespace(meta=meta, hash_info=hash_info) if hash_info else None


def _makers(project: Project, path: str) -> list[str]:
    """The stages that make a path: all of it, or what lies in it."""
    maker = _producer(project, path)
    if maker is not None:
        return [maker]
    below = [name for out, name in project.producers.items() if path in _upwards(out)[1:]]
    return list(dict.fromkeys(below))


def _path(root: Path, item: Any) -> str:
    """Where an output or a dependency lies, from the project's folder."""
    return os.path.relpath(item.fs_path, root) if item.protocol == "local" else str(item.def_path)


def _address(root: Path, stage: Any) -> str:
    """A stage as DVC takes it for a target: with its file, if that is not the project's own."""
    file = os.path.relpath(stage.path, root)
    return str(stage.name) if file == "dvc.yaml" else f"{file}:{stage.name}"


def _upwards(path: str) -> list[str]:
    return [str(part) for part in (PurePath(path), *PurePath(path).parents)]


def _producer(project: Project, path: str) -> str | None:
    """The stage whose output a dependency is, or lies in."""
    for part in _upwards(path):
        if part in project.producers:
            return project.producers[part]
    return None


def _node(root: Path, name: str, stage: Any, upstream: tuple[str, ...]) -> Node:
    from dvc.dependency import ParamsDependency

    params = [dep for dep in stage.deps if isinstance(dep, ParamsDependency)]
    return Node(
        name=name,
        description=stage.desc or "",
        command=stage.cmd,
        deps=tuple(_path(root, dep) for dep in stage.deps if dep not in params),
        outs=tuple(_path(root, out) for out in stage.outs),
        params=tuple(name for dep in params for name in dep.params),
        upstream=upstream,
        **parse_meta(name, stage.meta),
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
