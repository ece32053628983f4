"""The run log: seconds, rows and machine of every stage run, outside Git and DVC.

Tracked metrics hold results only, so that a re-run is byte-equal; what differs from run to run
goes here, one JSON object a line, in `.longline/runs.jsonl`. The report reads it.
"""

from __future__ import annotations

import json
import os
import platform
import time
from pathlib import Path
from typing import Any

RUN_LOG = Path(".longline") / "runs.jsonl"


def append(entry: dict[str, Any], path: Path = RUN_LOG) -> None:
    """Append one line in one write, so that lines of parallel stages never mix."""
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
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, (line + "\n").encode())
    finally:
        os.close(descriptor)


def read(path: Path = RUN_LOG) -> list[dict[str, Any]]:
    """All entries, oldest first; a line cut by a crash is passed over."""
    if not path.exists():
        return []
    entries = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entries.append(json.loads(line))
        except ValueError:
            continue
    return entries
