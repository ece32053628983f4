"""The digest of `conf/`: how a stage knows that params.yaml was composed from what is there now."""

from __future__ import annotations

import hashlib
from pathlib import Path


def conf_digest(conf: Path) -> str:
    """16 hexadecimal digits over the names and bytes of all YAML files below `conf`."""
    digest = hashlib.sha256()
    for path in sorted(conf.rglob("*.yaml")):
        digest.update(path.relative_to(conf).as_posix().encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
