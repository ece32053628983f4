"""Kinds of text and numbers in `conf/deploy`: each is held to what its reader takes there.

The readers are Kubernetes, Slurm, git and a shell. A mistake is then told now and in words, not by
a cluster after an hour in a queue; and none of these can hold a line break or a control character.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from pipelines.run.secrets import NAME as SECRET

QUANTITY = r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?"


def _text(pattern: str, what: str) -> AfterValidator:
    """Text that matches the pattern from its first to its last character."""

    def check(value: str) -> str:
        if re.fullmatch(pattern, value, re.ASCII) is None:
            raise ValueError(f"must be {what}")
        return value

    return AfterValidator(check)


def one_line(value: str) -> str:
    """Text that cannot begin a line of its own anywhere. Raises `ValueError`."""
    if not value.isprintable():
        raise ValueError("must be one line, without control characters")
    return value


def _plain(value: str) -> str:
    if "{{" in value:
        raise ValueError("must not hold '{{', which Prefect reads as a placeholder")
    return value


def _public(name: str) -> str:
    if SECRET.search(name):
        raise ValueError("is named like a secret, whose value must be in no file; see `secrets`")
    return name


Count = Annotated[int, Field(strict=True, ge=0)]
AtLeastOne = Annotated[int, Field(strict=True, ge=1)]
Grace = Annotated[int, Field(strict=True, ge=30, le=65535)]
Line = Annotated[str, AfterValidator(one_line)]
Plain = Annotated[Line, AfterValidator(_plain)]
Variable = Annotated[
    str, _text("[A-Za-z_][A-Za-z0-9_]*", "the name of an environment variable, without a value")
]
PublicVariable = Annotated[Variable, AfterValidator(_public)]
Word = Annotated[
    str, _text("[A-Za-z0-9_][A-Za-z0-9_.,:+-]*", "one word of letters, digits and _ . , : + -")
]
Module = Annotated[str, _text("[A-Za-z0-9_][A-Za-z0-9_./+-]*", "a module, such as python/3.11")]
Features = Annotated[
    str, _text("[A-Za-z0-9_][A-Za-z0-9_.&|*-]*", "features of nodes, such as 'a100|h100'")
]
Image = Annotated[
    str,
    _text("[a-z0-9][A-Za-z0-9._/:@-]*", "the reference of an image, such as registry/name:tag"),
]
DnsName = Annotated[
    str,
    _text("[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", "a Kubernetes name: lower case, digits, - and ."),
]
Namespace = Annotated[
    str,
    _text("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", "a Kubernetes namespace: lower case, digits and -"),
]
DataKey = Annotated[str, _text("[-._a-zA-Z0-9]{1,253}", "a key of a Kubernetes secret")]
Label = Annotated[
    str,
    _text(
        r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?",
        "a Kubernetes label, such as example.org/pool",
    ),
]
LabelValue = Annotated[
    str,
    _text("([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", "the value of a Kubernetes label"),
]
Quantity = Annotated[str, _text(QUANTITY, "a Kubernetes quantity, such as '500m', '4' or '32Gi'")]
Folder = Annotated[
    str, _text(r"(/[A-Za-z0-9_][A-Za-z0-9._-]*)+", "an absolute path of simple names")
]
Revision = Annotated[
    str, _text("[A-Za-z0-9][A-Za-z0-9._/-]*", "a commit, branch or tag, as git names it")
]
Repository = Annotated[
    str,
    _text(
        r"/[\w./~-]+|(https|ssh)://([\w.-]+@)?[\w.-]+(:[0-9]+)?/[\w./~-]+|[\w.-]+@[\w.-]+:[\w./~-]+",
        "a folder, or an https or ssh address without a password",
    ),
]
SlurmTime = Annotated[
    str,
    _text(
        r"[0-9]+|[0-9]+:[0-9]{1,2}(:[0-9]{1,2})?|[0-9]+-[0-9]{1,2}(:[0-9]{1,2}){0,2}",
        "a time of Slurm, in quotes: minutes, 'hours:minutes:seconds' or 'days-hours'",
    ),
]
SlurmMemory = Annotated[str, _text("[0-9]+[KMGT]?", "an amount of memory, such as '64G'")]
LogPath = Annotated[
    str, _text("[A-Za-z0-9_./%][A-Za-z0-9_./%-]*", "a path of letters, digits, _ . / % and -")
]
