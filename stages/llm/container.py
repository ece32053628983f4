"""Memory that a container's own limit leaves free, as Linux control groups tell it.

psutil sees the machine; a container with a limit is killed at that limit. Inside a container its
own group is mounted at the root of the hierarchy: `memory.max` (version 2) or
`memory/memory.limit_in_bytes` (version 1). Files in the page cache that nobody uses count as taken
there, and are given up when memory is needed: they are free here.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
_VERSIONS = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat",
     "total_inactive_file"),
)  # fmt: skip


def container_free(root: Path = ROOT) -> int | None:
    """Bytes up to the limit; None where there is none, or none that can be read."""
    for limit, usage, statistics, unused in _VERSIONS:
        try:
            most = int((root / limit).read_text(encoding="ascii"))  # `max` where there is none
            taken = int((root / usage).read_text(encoding="ascii"))
            lines = (root / statistics).read_text(encoding="ascii").splitlines()
            cached = next(
                (int(line.split()[1]) for line in lines if line.split()[:1] == [unused]), 0
            )
        except (OSError, ValueError, IndexError):
            continue
        return max(most - taken + cached, 0)
    return None
