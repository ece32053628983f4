"""The base job template: what Prefect and Kubernetes expect of it, as far as no cluster is needed.

`JOB` is a small schema of batch/v1 Job and its pod: the required fields, the types of those that
the template sets, and no others.
"""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from prefect.utilities.schema_tools import is_valid_schema, validate
from prefect.utilities.templating import apply_values, find_placeholders

from pipelines.deploy.kubernetes import job_template
from tests.unit.pipelines.deploy.conftest import kubernetes, shipped


def an_object(required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required.split(), "properties": properties,
            "additionalProperties": False}  # fmt: skip


TEXT, WHOLE, FLAG = {"type": "string", "minLength": 1}, {"type": "integer"}, {"type": "boolean"}
MAP = {"type": "object", "additionalProperties": {"type": "string"}}
QUANTITY = {"anyOf": [{"type": "string", "pattern": "^[0-9.]+([mkMGT]|[KMGT]i)?$"},
                      {"type": "integer", "minimum": 0}]}  # fmt: skip
QUANTITIES = {"type": "object", "additionalProperties": QUANTITY}
VARIABLE = an_object(
    "name", name=TEXT, value={"type": "string"},
    valueFrom=an_object("secretKeyRef", secretKeyRef=an_object("name key", name=TEXT, key=TEXT)),
)  # fmt: skip
CONTAINER = an_object(
    "name image command args resources securityContext volumeMounts",
    name={"const": "prefect-job"},
    image=TEXT,
    imagePullPolicy={"enum": ["IfNotPresent", "Always", "Never"]},
    command={"type": "array", "items": TEXT, "minItems": 1},
    args={"type": "array", "items": TEXT},
    workingDir={"type": "string", "pattern": "^/"},
    env={"type": "array", "items": VARIABLE},
    resources=an_object("requests limits", requests=QUANTITIES, limits=QUANTITIES),
    securityContext=an_object(
        "allowPrivilegeEscalation capabilities",
        allowPrivilegeEscalation={"const": False},
        capabilities=an_object("drop", drop={"const": ["ALL"]}),
    ),
    volumeMounts={"type": "array", "items": an_object("name mountPath", name=TEXT, mountPath=TEXT)},
)
POD = an_object(
    "restartPolicy containers securityContext volumes automountServiceAccountToken",
    parallelism={"const": 1},  # Prefect asks for these two here, where Kubernetes has none
    completions={"const": 1},
    restartPolicy={"const": "Never"},
    terminationGracePeriodSeconds=WHOLE,
    serviceAccountName=TEXT,
    automountServiceAccountToken=FLAG,
    enableServiceLinks=FLAG,
    nodeSelector=MAP,
    tolerations={"type": "array", "items": an_object(
        "operator", key=TEXT, operator={"enum": ["Exists", "Equal"]}, value=TEXT, effect=TEXT
    )},
    securityContext=an_object(
        "runAsNonRoot runAsUser runAsGroup fsGroup seccompProfile",
        runAsNonRoot={"const": True}, runAsUser={"type": "integer", "minimum": 1},
        runAsGroup=WHOLE, fsGroup=WHOLE, fsGroupChangePolicy={"const": "OnRootMismatch"},
        seccompProfile=an_object("type", type={"const": "RuntimeDefault"}),
    ),
    containers={"type": "array", "items": CONTAINER, "minItems": 1, "maxItems": 1},
    volumes={"type": "array", "items": an_object(
        "name", name=TEXT,
        persistentVolumeClaim=an_object("claimName", claimName=TEXT),
        emptyDir=an_object("medium", medium={"const": "Memory"}, sizeLimit=QUANTITY),
    )},
)  # fmt: skip
JOB = an_object(
    "apiVersion kind metadata spec",
    apiVersion={"const": "batch/v1"},
    kind={"const": "Job"},
    metadata=an_object("generateName namespace", generateName=TEXT, namespace=TEXT, labels=MAP,
                       annotations=MAP),
    spec=an_object(
        "template backoffLimit", backoffLimit=WHOLE, ttlSecondsAfterFinished=WHOLE,
        activeDeadlineSeconds=WHOLE, template=an_object("spec", spec=POD),
    ),
)  # fmt: skip

SECRETS = [{"variable": "HF_TOKEN", "secret": "longline", "key": "hf-token"}]


def defaults(template: dict[str, Any]) -> dict[str, Any]:
    """As Prefect takes them: a variable without a value is left out of the manifest."""
    properties = template["variables"]["properties"]
    return {name: it["default"] for name, it in properties.items() if it["default"] is not None}


def manifest(template: dict[str, Any], **values: Any) -> dict[str, Any]:
    """The Job that Prefect's worker would make, with what it fills in itself."""
    given = {"name": "happy-otter", "command": ["prefect", "flow-run", "execute"],
             **defaults(template), **values}  # fmt: skip
    made: dict[str, Any] = apply_values(template["job_configuration"]["job_manifest"], given)
    return made


def pod(job: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = job["spec"]["template"]["spec"]
    return spec


def test_every_placeholder_is_declared_and_every_variable_used() -> None:
    template = job_template(kubernetes(secrets=SECRETS))
    used = {found.name for found in find_placeholders(template["job_configuration"])}
    assert used == set(template["variables"]["properties"])


def test_the_variables_are_a_schema_that_takes_their_defaults() -> None:
    template = job_template(kubernetes())
    schema = template["variables"]
    is_valid_schema(schema)
    jsonschema.Draft202012Validator.check_schema(schema)
    given = {name: it["default"] for name, it in schema["properties"].items()}
    assert validate(given, schema, raise_on_error=True) == []
    for name, it in schema["properties"].items():
        assert it["title"] and it["description"], name
        assert "default" in it, name
        assert "type" in it or "anyOf" in it, name


@pytest.mark.parametrize(
    ("name", "value"),
    [("gpus", -1), ("gpus", "two"), ("gpus", None), ("memory", "lots"),
     ("cpu", 4), ("image", ""), ("image_pull_policy", "Sometimes"), ("deadline_seconds", 0),
     ("service_account_token", "yes"), ("env", {"A": 1}), ("shared_memory", "8 Gi"),
     ("grace_seconds", 0), ("backoff_limit", 1.5)],
)  # fmt: skip
def test_wrong_job_variables_are_refused(name: str, value: Any) -> None:
    schema = job_template(kubernetes())["variables"]
    assert validate({name: value}, schema), (name, value)
    assert list(jsonschema.Draft202012Validator(schema).iter_errors({name: value}))


def test_the_job_is_one_of_batch_v1() -> None:
    template = job_template(kubernetes(secrets=SECRETS))
    jsonschema.validate(manifest(template), JOB)
    every = {"service_account_name": "runner", "deadline_seconds": 60, "revision": "v1", "gpus": 0}
    job = manifest(template, **every)
    jsonschema.validate(job, JOB)
    assert pod(job)["serviceAccountName"] == "runner"
    assert job["spec"]["activeDeadlineSeconds"] == 60
    for key in ("serviceAccountName", "activeDeadlineSeconds"):  # left to the cluster
        assert key not in json.dumps(manifest(template))


def test_values_of_the_configuration_are_the_defaults() -> None:
    config = kubernetes(
        image="registry.example.org/a@sha256:00", namespace="team", gpus=4, memory="200Gi",
        shared_memory="64Gi", claim="disk", mount="/scratch/longline", user=4711, group=42,
        ttl_seconds=60, backoff_limit=2, grace_seconds=30, deadline_seconds=3600,
        gpu_resource="amd.com/gpu", node_selector={"example.org/pool": "gpu"}, tolerations=[],
        service_account="runner", service_account_token=True,
        environment={"A": "b: {c} # 'd' \"e\""},
    )  # fmt: skip
    template = job_template(config)
    job = manifest(template)
    container = pod(job)["containers"][0]
    jsonschema.validate(job, JOB)
    assert job["metadata"]["namespace"] == "team"
    assert job["spec"]["backoffLimit"] == 2
    assert job["spec"]["ttlSecondsAfterFinished"] == 60
    assert job["spec"]["activeDeadlineSeconds"] == 3600
    assert pod(job)["terminationGracePeriodSeconds"] == 30
    assert pod(job)["nodeSelector"] == {"example.org/pool": "gpu"}
    assert pod(job)["tolerations"] == []
    assert pod(job)["automountServiceAccountToken"] is True
    assert pod(job)["serviceAccountName"] == "runner"
    assert pod(job)["securityContext"]["runAsUser"] == 4711
    assert pod(job)["securityContext"]["fsGroup"] == 42
    assert container["image"] == "registry.example.org/a@sha256:00"
    assert container["resources"] == {
        "requests": {"cpu": "4", "memory": "200Gi"},
        "limits": {"memory": "200Gi", "amd.com/gpu": 4},
    }
    assert {"name": "storage", "mountPath": "/scratch/longline"} in container["volumeMounts"]
    assert pod(job)["volumes"][0]["persistentVolumeClaim"]["claimName"] == "disk"
    assert pod(job)["volumes"][1]["emptyDir"] == {"medium": "Memory", "sizeLimit": "64Gi"}
    assert defaults(template)["env"] == {"A": "b: {c} # 'd' \"e\""}


def test_secrets_are_named_and_never_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hunter2-planted")
    template = job_template(kubernetes(secrets=SECRETS))
    assert "hunter2-planted" not in json.dumps(template)
    variables = {entry["name"]: entry for entry in pod(manifest(template))["containers"][0]["env"]}
    assert variables["HF_TOKEN"] == {
        "name": "HF_TOKEN",
        "valueFrom": {"secretKeyRef": {"name": "longline", "key": "hf-token"}},
    }
    assert "HF_TOKEN" not in template["variables"]["properties"]["env"]["default"]


def test_a_pod_has_no_access_to_the_cluster_by_default() -> None:
    spec = pod(manifest(job_template(kubernetes())))
    assert spec["automountServiceAccountToken"] is False
    assert shipped("kubernetes")["service_account_token"] is False


def test_neither_kubernetes_nor_prefect_rewrites_the_script() -> None:
    """Kubernetes replaces `$(NAME)` in a command, Prefect `{{ name }}`."""
    command = pod(manifest(job_template(kubernetes())))["containers"][0]["command"]
    assert command[:2] == ["/bin/sh", "-euc"]
    assert "$(" not in command[2]
    assert "{{" not in command[2]
    assert command[2].endswith('exec "$@"\n')
