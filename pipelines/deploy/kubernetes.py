"""The base job template of a Prefect Kubernetes work pool.

    job_template(config)   -> {"variables": {...}, "job_configuration": {...}}

    prefect work-pool create NAME --type kubernetes --base-job-template FILE

Each flow run gets a pod and, on the persistent volume, a workspace of its own: a clone that the pod
makes before it starts Prefect. `LONGLINE_WORKSPACE` names it for the deployment's pull step.
"""

from __future__ import annotations

from typing import Any

import yaml

from pipelines.deploy.config import Kubernetes
from pipelines.deploy.kinds import QUANTITY
from pipelines.deploy.render import render


def job_template(config: Kubernetes) -> dict[str, Any]:
    """The template, as Prefect takes it as JSON. Secrets are in it by name only."""
    values = config.model_dump()
    values["tolerations"] = [one.model_dump(exclude_none=True) for one in config.tolerations]
    script = render("pod.sh")
    text = render("kubernetes.yaml", **values, quantity=f"^{QUANTITY}$", script=script)
    template: dict[str, Any] = yaml.safe_load(text)
    return template
