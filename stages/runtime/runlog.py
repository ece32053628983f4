"""The run log: seconds, rows and machine of every stage run, outside Git and DVC.

Tracked metrics hold results only, so that a re-run is byte-equal; what differs from run to run
goes here, one JSON object a line, in `.longline/runs.jsonl`, or in the file that the environment
variable LONGLINE_RUN_LOG names (so that the cells of an ablation share one). The report and the
plan read it.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

RUN_LOG = Path(".longline") / "runs.jsonl"


def append(entry: dict[str, Any], path: Path | None = None) -> None:
    """Append one line in one locked write, so that lines of parallel stages never mix.

    After a line that a crash cut off, the entry starts on a line of its own.
    """
    path = path or Path(os.environ.get("LONGLINE_RUN_LOG") or RUN_LOG)
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(
        {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "cpus": os.cpu_count(),
            "machine": platform.machine(),
            **entry,
        },
        sort_keys=True,
    )
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # given back by close
        size = os.fstat(descriptor).st_size
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        os.write(descriptor, (("\n" if torn else "") + line + "\n").encode())
    finally:
        os.close(descriptor)


def read(path: Path = RUN_LOG) -> list[dict[str, Any]]:
    """All entries, oldest first; a line cut by a crash is passed over."""
    if not path.exists():
        return []
    entries = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            entries.append(entry)
    return entries
