"""Who may run now: CPUs and GPUs as a weighted semaphore, and which GPUs a stage gets.

pool = Pool.of_this_machine()
with pool.take(node.resources, priority=seconds_left, stopping=event) as gpus:
    ...                                    # gpus -> ("0",), for CUDA_VISIBLE_DEVICES
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pipelines.dag.nodes import Resources
from pipelines.run.stage import StageStopped
from schemas.errors import UserError


@dataclass
class _Waiter:
    wants: Resources
    priority: float
    granted: tuple[str, ...] | None = None


@dataclass
class Pool:
    """The resources that the stages of one run share.

    Waiters are served by priority (the longest work still to come first), then by arrival. What an
    earlier waiter lacks is kept for it, so that a large stage is not starved by small ones.
    """

    cpus: int
    gpus: tuple[str, ...] = ()
    _waiting: list[_Waiter] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self._free_cpus, self._free_gpus = self.cpus, list(self.gpus)

    @classmethod
    def of_this_machine(cls, cpus: int | None = None, gpus: int | None = None) -> Pool:
        """The CPUs this process may use and the GPUs it sees, or fewer."""
        seen = visible_gpus()
        if gpus is not None and gpus > len(seen):
            raise UserError(
                f"{gpus} GPUs were asked for, this machine has {len(seen)}",
                fix="ask for fewer, or none, with --gpus",
            )
        usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
        return cls(cpus or usable or os.cpu_count() or 1, seen if gpus is None else seen[:gpus])

    def check(self, stage: str, wants: Resources) -> None:
        """Refuse a stage that could never run here. CPUs only slow it down; GPUs it must have."""
        if wants.gpus > len(self.gpus):
            raise UserError(
                f"stage '{stage}' needs {wants.gpus} GPUs, this run has {len(self.gpus)}",
                fix=f"run on a machine with GPUs, or lower meta.resources.gpus of {stage} in "
                "dvc.yaml",
            )

    @contextmanager
    def take(
        self, wants: Resources, priority: float = 0.0, stopping: threading.Event | None = None
    ) -> Iterator[tuple[str, ...]]:
        """Wait until the resources are free; yields the ids of the GPUs. CPUs are capped at all
        there are. Raises `StageStopped` when the run is cancelled meanwhile."""
        capped = Resources(min(wants.cpus, self.cpus), wants.gpus)
        waiter = _Waiter(capped, priority)
        with self._changed:
            self._waiting.append(waiter)
            self._waiting.sort(key=lambda one: -one.priority)
            self._grant()
            while waiter.granted is None:
                self._changed.wait(0.2)
                if waiter.granted is None and stopping is not None and stopping.is_set():
                    self._waiting.remove(waiter)
                    self._grant()
                    raise StageStopped("waiting for resources")
        try:
            yield waiter.granted
        finally:
            with self._changed:
                self._free_cpus += capped.cpus
                self._free_gpus = sorted({*self._free_gpus, *waiter.granted}, key=self.gpus.index)
                self._grant()

    def _grant(self) -> None:
        cpus, gpus = self._free_cpus, len(self._free_gpus)
        for waiter in list(self._waiting):
            wants = waiter.wants
            if wants.cpus <= cpus and wants.gpus <= gpus:
                self._waiting.remove(waiter)
                waiter.granted = tuple(self._free_gpus[: wants.gpus])
                self._free_gpus = self._free_gpus[wants.gpus :]
                self._free_cpus -= wants.cpus
            cpus, gpus = cpus - wants.cpus, gpus - wants.gpus
        self._changed.notify_all()


def visible_gpus() -> tuple[str, ...]:
    """GPU ids as CUDA_VISIBLE_DEVICES names them; none without NVIDIA's driver tool."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return tuple(part.strip() for part in named.split(",") if part.strip() not in ("", "-1"))
    try:
        listed = subprocess.run(
            ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"],
            capture_output=True, text=True, timeout=20, check=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(listed.split())
