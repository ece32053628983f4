"""The one error that a user is meant to read.

Everything a user can cause (a wrong key, a missing file, a full disk) is raised as `UserError`
and printed without a traceback; any other exception is a defect of Longline and keeps its own.
"""

from __future__ import annotations

import errno
import shlex
from collections.abc import Iterable

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_MEMORY = ("Out of Memory Error", "out of memory", "can't allocate memory")


class UserError(Exception):
    """What was given, what is allowed, and the command that fixes it.

    `message` says what was given; `allowed` lists the accepted values, if they can be listed;
    `fix` is a command or an edit that resolves it.
    """

    def __init__(
        self, message: str, *, allowed: Iterable[object] | None = None, fix: str | None = None
    ) -> None:
        self.message = message
        self.allowed = None if allowed is None else sorted(str(item) for item in allowed)
        self.fix = fix
        super().__init__(str(self))

    def __str__(self) -> str:
        lines = [self.message]
        if self.allowed is not None:
            lines.append(f"  allowed: {', '.join(self.allowed) or '(nothing)'}")
        if self.fix is not None:
            lines.append(f"  fix: {self.fix}")
        return "\n".join(lines)


def as_user_error(error: BaseException) -> UserError | None:
    """The readable form of an error of the machine (disk, memory, rights), or None.

    DuckDB and torch report these as text inside their own exceptions, so the message is read too.
    """
    if isinstance(error, UserError):
        return error
    text = str(error)
    full = isinstance(error, OSError) and error.errno in _NO_SPACE
    full = full or any(
        sign in text
        for sign in ("No space left on device", "Disk quota exceeded", "File too large")
    )
    if full:
        return UserError(
            f"the disk is full: {text.splitlines()[0]}",
            fix="free space (`dvc gc -w`, or empty .work/), then run the same command again; "
            "nothing half-written was published (`dvc checkout` brings back the last datasets)",
        )
    if isinstance(error, MemoryError) or any(sign in text for sign in _NO_MEMORY):
        return UserError(
            f"out of memory: {(text.splitlines() or ['no more to be had'])[0]}",
            fix="end other programs, or lower runtime.generation_batch in conf/runtime/local.yaml "
            "(it changes no result) and run `longline params compose`",
        )
    if isinstance(error, PermissionError) and error.filename is not None:
        return UserError(
            f"no right to use {error.filename}: {error.strerror}",
            fix=f"chmod u+rw {shlex.quote(str(error.filename))}",
        )
    return None
