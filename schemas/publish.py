"""Publishing a finished file or folder in one step.

Work is done in `.work/`, on the same file system. `publish` then swaps the finished work with
whatever stood at the target. A process killed at any moment leaves the old version or the new
one, never half of either.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from pathlib import Path

from schemas.ids import content_id

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def publish(work: Path, target: Path) -> None:
    """Make `work` the content of `target`; the previous content, if any, is removed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    recover(target)
    if not target.exists():
        os.replace(work, target)
        return
    if work.is_file() and target.is_file():
        os.replace(work, target)
        return
    if _exchange(work, target):
        _remove(work)
        return
    aside = _aside(target)
    os.replace(target, aside)
    os.replace(work, target)
    _remove(aside)


def recover(target: Path) -> None:
    """Put back what an interrupted two-step swap (no RENAME_EXCHANGE) had moved aside."""
    aside = _aside(target)
    if aside.exists() and not target.exists():
        os.replace(aside, target)
    elif aside.exists():
        _remove(aside)


def _aside(target: Path) -> Path:
    return target.parent / f".{target.name}.{content_id(target.name)[:6]}.old"


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two paths atomically with Linux's renameat2; False where it is not to be had."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    result = renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
    return bool(result == 0)
