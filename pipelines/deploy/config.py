"""What `conf/deploy/*.yaml` may hold. The files have every key, with what it means.

Nothing has a default here: the files are the one place where values are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeVar

import yaml
from pydantic import ValidationInfo, field_validator

from pipelines.deploy.kinds import (
    AtLeastOne,
    Count,
    DataKey,
    DnsName,
    Features,
    Folder,
    Grace,
    Image,
    Label,
    LabelValue,
    Line,
    LogPath,
    Module,
    Namespace,
    Plain,
    PublicVariable,
    Quantity,
    Repository,
    Revision,
    SlurmMemory,
    SlurmTime,
    Variable,
    Word,
)
from schemas.errors import UserError
from stages.runtime.variant import Settings, checked

Model = TypeVar("Model", bound=Settings)


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
    environment: dict[PublicVariable, Plain]
    backoff_limit: Count
    ttl_seconds: Count
    deadline_seconds: AtLeastOne | None
    grace_seconds: AtLeastOne

    @field_validator("environment")
    @classmethod
    def _set_once(cls, values: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        named = [secret.variable for secret in info.data.get("secrets", ())]
        for name in named:
            if [*named, *values].count(name) > 1:
                raise ValueError(f"'{name}' is set twice, in `secrets` or here")
        return values


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
    grace_seconds: Grace
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
