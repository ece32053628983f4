"""What `conf/deploy/*.yaml` may hold. The files have every key, with what it means.

Nothing has a default here: the files are the one place where values are. Text is held to what its
reader (Kubernetes, Slurm, git, a shell) takes there, so that a mistake is told now and in words,
not by a cluster after an hour in a queue.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar

import yaml
from pydantic import AfterValidator, Field, model_validator

from pipelines.run.secrets import NAME as NAMED_LIKE_A_SECRET
from schemas.errors import UserError
from stages.runtime.variant import Settings, checked

Model = TypeVar("Model", bound=Settings)


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


Count = Annotated[int, Field(strict=True, ge=0)]
AtLeastOne = Annotated[int, Field(strict=True, ge=1)]
Line = Annotated[str, AfterValidator(one_line)]
Plain = Annotated[Line, AfterValidator(_plain)]
Variable = Annotated[
    str, _text("[A-Za-z_][A-Za-z0-9_]*", "the name of an environment variable, without a value")
]
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
QUANTITY = r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?"
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


class SecretKey(Settings):
    """A variable of the job, and the key of the Kubernetes secret that holds its value."""

    variable: Variable
    secret: DnsName
    key: DataKey


class Toleration(Settings):
    """A taint of nodes that the job may run on nevertheless, in Kubernetes' own words."""

    key: Label
    operator: Literal["Exists", "Equal"]
    value: LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None


class Kubernetes(Settings):
    """`conf/deploy/kubernetes.yaml`."""

    image: Image
    image_pull_policy: Literal["IfNotPresent", "Always", "Never"]
    namespace: Namespace
    repository: Repository
    revision: Revision | None
    claim: DnsName
    mount: Folder
    cpu: Quantity
    memory: Quantity
    gpus: Count
    gpu_resource: Label
    shared_memory: Quantity
    node_selector: dict[Label, LabelValue]
    tolerations: tuple[Toleration, ...]
    user: AtLeastOne
    group: AtLeastOne
    service_account: DnsName | None
    service_account_token: bool
    secrets: tuple[SecretKey, ...]
    environment: dict[Variable, Plain]
    backoff_limit: Count
    ttl_seconds: Count
    deadline_seconds: AtLeastOne | None
    grace_seconds: AtLeastOne

    @model_validator(mode="after")
    def _secrets_by_name_only(self) -> Self:
        named = [secret.variable for secret in self.secrets]
        for name in self.environment:
            if NAMED_LIKE_A_SECRET.search(name):
                raise ValueError(
                    f"'{name}' is named like a secret, and its value would stand in the template; "
                    "name it under `secrets`"
                )
        twice = sorted(
            {name for name in named if named.count(name) > 1 or name in self.environment}
        )
        if twice:
            raise ValueError(f"'{twice[0]}' is set twice, in `secrets` or `environment`")
        return self


class Slurm(Settings):
    """`conf/deploy/slurm.yaml`. Relative paths are relative to the project's folder."""

    job_name: Word
    partition: Word | None
    account: Word | None
    qos: Word | None
    constraint: Features | None
    time: SlurmTime
    cpus: AtLeastOne
    memory: SlurmMemory
    gpus: Count
    gpu_type: Word | None
    log: LogPath
    grace_seconds: Annotated[int, Field(strict=True, ge=30, le=65535)]
    requeues: Count
    array_parallel: Count
    repository: Line
    revision: Revision
    workspaces: Line
    cache: Line
    venv: Line
    modules: tuple[Module, ...]
    environment: tuple[Variable, ...]


def load(path: Path, model: type[Model]) -> Model:
    """Read and check a file of `conf/deploy`. Raises `UserError` that names the key."""
    if not path.is_file():
        raise UserError(f"no file {path}", fix="name it with --config; conf/deploy/ has examples")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not YAML: {error}", fix=f"correct {path}") from error
    try:
        return checked(model, values, path.stem)
    except UserError as error:
        raise UserError(error.message, allowed=error.allowed, fix=f"correct {path}") from error
