"""The digest of `conf/`: how a stage knows that params.yaml was composed from what is there now."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

NOT_PARAMETERS = frozenset({"ablation", "deploy"})
"""Folders of `conf/` that nothing in params.yaml is composed from: the grids of `longline ablate`
and where `longline deploy` runs things. In the digest, a new grid or another partition would make
params.yaml out of date and stop the pipeline, although no stage's parameters had changed."""


def parameter_files(conf: Path) -> Iterator[Path]:
    """The YAML files that `params.yaml` can be composed from, in the order of their paths."""
    for path in sorted(conf.rglob("*.yaml")):
        if path.relative_to(conf).parts[0] not in NOT_PARAMETERS:
            yield path


def conf_digest(conf: Path) -> str:
    """16 hexadecimal digits over the names and bytes of all parameter files below `conf`."""
    digest = hashlib.sha256()
    for path in parameter_files(conf):
        digest.update(path.relative_to(conf).as_posix().encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
