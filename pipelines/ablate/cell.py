"""One cell of an ablation: a workspace of its own, and what it leaves as a DVC experiment.

The workspace is a clone of the project with the files as they are now (changed and new ones too),
the cell's `params.yaml`, and the project's own DVC cache. It lies in
`.longline/ablations/GRID/CELL/`; the project's own workspace is never touched.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pipelines.dag.nodes import Nodes
from pipelines.dag.start_dvc import DVC
from pipelines.params import replace_params
from pipelines.run.stage import run_command
from schemas.errors import UserError

FOLDER = Path(".longline") / "ablations"
PAGES = Path("reports") / "ablations"
SMALL = 1 << 20


def lock_path(grid: str) -> Path:
    """The lock that a run of the grid holds, from the project's folder."""
    return FOLDER / f"{grid}.lock"


def workspace_path(root: Path, grid: str, cell: str) -> Path:
    return root / FOLDER / grid / cell


def make_workspace(root: Path, target: Path, params: str, nodes: Nodes) -> None:
    """A fresh workspace at `target` with these parameters. What lay there before is removed.

    Raises `UserError` where the project has no commit that an experiment could start from.
    """
    head = start_commit(root)
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    git(root, "clone", "--quiet", "--shared", "--no-tags", str(root), str(target))
    git(target, "checkout", "--quiet", "--detach", head)
    outs = {Path(out) for node in nodes.values() for out in node.outs}
    deps = {Path(dep) for node in nodes.values() for dep in node.deps}
    changed = _names(git(root, "diff-index", "-z", "--name-only", "--no-renames", head))
    for name in sorted({*changed, *_listed(root, "--others", "--exclude-standard")}):
        path = Path(name)
        around = {path, *path.parents}
        if name == "dvc.lock" or outs & around or PAGES in around:
            continue
        if not (name in changed or deps & around or _small(root / path)):
            continue
        if (root / path).is_file():
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / path, target / path)
        else:
            (target / path).unlink(missing_ok=True)
    for node in nodes.values():
        for dep in node.deps:
            if Path(dep) not in outs and not os.path.isabs(dep):
                _bring(root / dep, target / dep)
    _share_cache(root, target)
    replace_params(target, params)


def start_commit(root: Path) -> str:
    """The commit that experiments start from. Raises `UserError` where there is none."""
    head = git(root, "rev-parse", "--verify", "--quiet", "HEAD", check=False).strip()
    if not head:
        raise UserError(
            "an experiment needs a commit to start from", fix="git add -A && git commit -m start"
        )
    return head


def save_experiment(
    root: Path,
    workspace: Path,
    name: str,
    identity: str,
    on_line: Callable[[str], None],
    stopping: threading.Event,
) -> str:
    """Bring the whole cell up to date (from the cache), save it as an experiment of the project's
    HEAD, and return its commit. An older experiment of that name is replaced.

    The commit's message holds the identity, by which a later run knows that the cell is done.
    """
    run_command(workspace, [*DVC, "--wait-for-lock", "repro"], name, on_line, stopping)
    new = _listed(workspace, "--others", "--exclude-standard")
    include = [word for path in new for word in ("--include-untracked", path)]
    run_command(
        workspace, [*DVC, "--wait-for-lock", "exp", "save", "--force", "--name", name,
         "--message", message(identity), *include],
        name, on_line, stopping,
    )  # fmt: skip
    reference = experiment_reference(workspace, name)
    git(root, "fetch", "--quiet", str(workspace), f"+{reference}:{reference}")
    return git(root, "rev-parse", reference).strip()


def experiment_reference(root: Path, name: str) -> str:
    """Where DVC keeps an experiment of the current commit."""
    head = git(root, "rev-parse", "HEAD").strip()
    return f"refs/exps/{head[:2]}/{head[2:]}/{name}"


def saved_commit(root: Path, name: str, identity: str) -> str | None:
    """The commit of an experiment of the current HEAD with this identity, if there is one."""
    reference = experiment_reference(root, name)
    found = git(root, "log", "-1", "--format=%H %B", reference, "--", check=False)
    commit, _, text = found.strip().partition(" ")
    return commit if message(identity) in text else None


def message(identity: str) -> str:
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return f"cell of a longline ablation, identity {digest}"


def saved_metrics(root: Path, commit: str, nodes: Nodes) -> dict[str, float]:
    """The numbers in the metrics files of an experiment, as STAGE.key."""
    found: dict[str, float] = {}
    for node in nodes.values():
        for out in node.outs:
            if out == f"reports/{node.name}.json":
                text = git(root, "show", f"{commit}:{out}", check=False)
                with suppress(ValueError):
                    found |= numbers(json.loads(text), node.name)
    return found


def git(root: Path, *arguments: str, check: bool = True) -> str:
    """What git says. Raises `UserError` where it fails."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True)
    if check and done.returncode:
        raise UserError(
            f"git {arguments[0]} failed: {(done.stderr or done.stdout).strip()}",
            fix=f"see what `git -C {root} status` says",
        )
    return done.stdout if done.returncode == 0 else ""


def _small(path: Path) -> bool:
    """New files that no stage names are brought along only where they may be code or settings."""
    return path.is_file() and path.stat().st_size <= SMALL


def _listed(root: Path, *options: str) -> list[str]:
    return sorted(_names(git(root, "ls-files", "-z", *options)))


def _names(listed: str) -> set[str]:
    return {name for name in listed.split("\0") if name}


def _bring(source: Path, target: Path) -> None:
    """Files that git ignores, such as the user's documents: linked where possible, else copied."""
    files = [source] if source.is_file() else sorted(source.rglob("*")) if source.is_dir() else []
    for file in files:
        place = target if file == source else target / file.relative_to(source)
        if file.is_file() and "__pycache__" not in file.parts and not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(file, place)
            except OSError:
                shutil.copy2(file, place)


def _share_cache(root: Path, target: Path) -> None:
    """Let the workspace use the project's cache, with links instead of copies where possible."""
    from configobj import ConfigObj
    from dvc.repo import Repo

    own = root / ".dvc" / "config.local"
    config: Any = ConfigObj(str(own) if own.exists() else None, list_values=False)
    config.filename = str(target / ".dvc" / "config.local")
    cache = dict(config.get("cache", {}))
    with Repo(str(root)) as repo:
        cache["dir"] = repo.cache.legacy.path
    cache.setdefault("type", "reflink,hardlink,copy")
    config["cache"] = cache
    config.write()


def numbers(values: Any, prefix: str) -> dict[str, float]:
    """The numbers of a metrics file, however deep, as PREFIX.key."""
    if isinstance(values, dict):
        return {
            name: number
            for key, value in values.items()
            for name, number in numbers(value, f"{prefix}.{key}").items()
        }
    if isinstance(values, bool) or not isinstance(values, int | float):
        return {}
    return {prefix: float(values)}


def remove_workspaces(root: Path, grid: str, names: Sequence[str]) -> None:
    """Remove workspaces of cells that are saved."""
    for name in names:
        shutil.rmtree(workspace_path(root, grid, name), ignore_errors=True)
    with suppress(OSError):
        (root / FOLDER / grid).rmdir()
