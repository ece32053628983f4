"""Executions with equal inputs: one runs, the others wait for it and take its result.

    key = contents(workspace, execution)          # once its upstream is there
    with turns.take(key, stopping):
        run_stage(...)                            # the second one finds it in DVC's run-cache

The plan joins what has one identity before anything runs. Stages of different identities may still
receive the same bytes from upstream (a setting that changed nothing), which only shows then.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePath

import yaml

from pipelines.ablate.planning import Execution
from pipelines.run.stage import StageStopped


@dataclass
class Turns:
    """One lock for each key that was ever asked for."""

    _locks: dict[Hashable, threading.Lock] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def take(self, key: Hashable, stopping: threading.Event) -> Iterator[None]:
        """Hold a key. Raises `StageStopped` when the run is cancelled before it is free."""
        with self._guard:
            lock = self._locks.setdefault(key, threading.Lock())
        while not lock.acquire(timeout=0.2):
            if stopping.is_set():
                raise StageStopped("waiting for an execution with the same inputs")
        try:
            yield
        finally:
            lock.release()


def contents(workspace: Path, execution: Execution) -> tuple[str, ...]:
    """What the execution follows from, by content: its command, parameters and sources, and the
    hashes that `dvc.lock` has for what it takes from upstream.

    Falls back to its identity where the lock does not tell, as for stages in folders below.
    """
    node, outlook = execution.row.node, execution.row.outlook
    try:
        text = (workspace / "dvc.lock").read_text(encoding="utf-8")
        locked = yaml.safe_load(text)["stages"]
        taken = [
            out
            for name in node.upstream
            for out in locked[name].get("outs", [])
            if any(_touch(out["path"], dep) for dep in node.deps)
        ]
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        return execution.key
    return execution.stage, outlook.own, json.dumps(taken, sort_keys=True)


NOTES = Path(".longline") / "equal_inputs.jsonl"


def note_contents(root: Path, execution: Execution, key: tuple[str, ...]) -> None:
    """Remember which identity had which contents, for what a restored result once took."""
    digest = hashlib.sha256("\n".join(key).encode()).hexdigest()[:16]
    line = json.dumps({"contents": digest, "identity": execution.identity})
    with (root / NOTES).open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def equal_inputs(root: Path) -> Mapping[str, tuple[str, ...]]:
    """For each identity, all that had the same contents; itself too."""
    path = root / NOTES
    together: dict[str, dict[str, None]] = defaultdict(dict)
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        with suppress(ValueError, KeyError, TypeError):  # a line that a crash has cut off
            entry = json.loads(line)
            together[entry["contents"]][entry["identity"]] = None
    return {one: tuple(group) for group in together.values() for one in group}


def _touch(out: str, dep: str) -> bool:
    """Whether one path is the other, or lies in it."""
    a, b = PurePath(out), PurePath(dep)
    return a == b or a in b.parents or b in a.parents
