"""Content ids: the same content has the same id on every machine and in every run."""

from __future__ import annotations

import hashlib


def content_id(*parts: str | int) -> str:
    """64 bits of SHA-256 over the parts, as 16 hexadecimal digits.

    Parts are length-prefixed, so that ("ab", "c") and ("a", "bc") differ.
    """
    digest = hashlib.sha256()
    for part in parts:
        data = str(part).encode("utf-8", "surrogatepass")
        digest.update(f"{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()[:16]


def seeded(seed: int, *parts: str | int) -> int:
    """A 63-bit random seed that depends on the run's seed and on what it is for.

    Each item draws from its own generator, so that adding an item never changes another's draw.
    """
    return int(content_id(seed, *parts), 16) >> 1
