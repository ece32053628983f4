"""Which errors a user reads without a traceback, and what they say."""

from __future__ import annotations

import errno

import duckdb
import pytest

from schemas.errors import UserError, as_user_error


def test_the_parts_of_the_message() -> None:
    error = UserError("no stage 'x'", allowed=["b", "a"], fix="name one")
    assert str(error) == "no stage 'x'\n  allowed: a, b\n  fix: name one"
    assert str(UserError("m", allowed=[])) == "m\n  allowed: (nothing)"


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "data/x"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        OSError(errno.EFBIG, "File too large"),
        duckdb.IOException('IO Error: Could not write file "x": No space left on device\nmore'),
    ],
)
def test_a_full_disk(error: Exception) -> None:
    readable = as_user_error(error)
    assert readable is not None
    assert readable.message.startswith("the disk is full: ")
    assert "\n" not in readable.message
    assert "nothing half-written was published" in (readable.fix or "")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        duckdb.OutOfMemoryException("Out of Memory Error: failed to allocate 3 GiB"),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
    ],
)
def test_no_memory(error: Exception) -> None:
    readable = as_user_error(error)
    assert readable is not None
    assert readable.message.startswith("out of memory: ")
    assert "runtime.generation_batch" in (readable.fix or "")


def test_no_right() -> None:
    readable = as_user_error(PermissionError(errno.EACCES, "Permission denied", "data/x"))
    assert readable is not None
    assert readable.message == "no right to use data/x: Permission denied"
    assert readable.fix == "chmod u+rw data/x"


@pytest.mark.parametrize(
    "error", [ValueError("x"), KeyError("x"), PermissionError("of a process"), OSError(5, "I/O")]
)
def test_a_defect_keeps_its_traceback(error: Exception) -> None:
    assert as_user_error(error) is None


def test_a_user_error_is_itself() -> None:
    error = UserError("x")
    assert as_user_error(error) is error
