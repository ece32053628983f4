"""A script for sbatch that runs `longline run` on one allocation.

    batch_script(config, Request(stages=("judge",), overrides=("seed.train=1",)), Path.cwd())

One node and one workspace a job. Near the time limit the run is told to stop, and the job goes back
into the queue and on in the same workspace; so it does when Slurm preempts it. DVC is all the state
there is.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from pipelines.deploy.config import Slurm
from pipelines.deploy.kinds import one_line
from pipelines.deploy.render import render
from schemas.errors import UserError


@dataclass(frozen=True)
class Request:
    """What a job runs. With `variations` it is an array, whose tasks add one override each."""

    stages: Sequence[str] = ()
    overrides: Sequence[str] = ()
    variations: Sequence[str] = ()


def batch_script(config: Slurm, request: Request, project: Path) -> str:
    """The script for a project's folder. Raises `UserError` for what could not run there."""
    check_request(request, project)
    repository = (project / config.repository).resolve()
    arguments = [*request.stages]
    for override in request.overrides:
        arguments += ["-S", override]
    try:
        return render(
            "slurm.sh",
            options=options(config, len(request.variations)),
            modules=config.modules,
            repository=repository,
            revision=commit(repository, config.revision),
            cache=(project / config.cache).resolve(),
            workspaces=(project / config.workspaces).resolve(),
            programs=(project / config.venv).absolute() / "bin",
            arguments=arguments,
            variations=list(request.variations),
            limits=["--cpus", config.cpus, "--gpus", config.gpus],
            requeues=config.requeues,
        )
    except ValueError as error:
        raise UserError(f"cannot write the script: {error}") from error


def options(config: Slurm, tasks: int) -> list[str]:
    """What stands after `#SBATCH`, in order."""
    gpu = f"gpu:{config.gpu_type}:{config.gpus}" if config.gpu_type else f"gpu:{config.gpus}"
    parallel = f"%{config.array_parallel}" if config.array_parallel else ""
    named = {
        "job-name": config.job_name,
        "partition": config.partition,
        "account": config.account,
        "qos": config.qos,
        "constraint": config.constraint,
        "time": config.time,
        "nodes": 1,
        "ntasks": 1,
        "cpus-per-task": config.cpus,
        "mem": config.memory,
        "gres": gpu if config.gpus else None,
        "array": f"0-{tasks - 1}{parallel}" if tasks else None,
        "output": config.log,
        "open-mode": "append",
        "signal": f"B:USR1@{config.grace_seconds}",
        "export": ",".join(config.environment) or "NIL",
    }
    written = [f"--{key}={shlex.quote(str(value))}" for key, value in named.items() if value]
    return [*written, "--requeue" if config.requeues else "--no-requeue"]


def commit(repository: Path, revision: str) -> str:
    """The commit that a revision is now, so that a job runs it whenever it starts."""
    done = _git(repository, "rev-parse", "--quiet", "--verify", f"{revision}^{{commit}}")
    if done.returncode:
        raise UserError(
            f"{repository} has no commit '{revision}'",
            fix="set repository and revision in conf/deploy/slurm.yaml; a job runs what is "
            "committed",
        )
    return done.stdout.strip()


def uncommitted(repository: Path) -> bool:
    """Whether tracked files were changed, which a job does not see."""
    return bool(_git(repository, "status", "--porcelain", "--untracked-files=no").stdout.strip())


def _git(repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", "-C", str(repository), *arguments], capture_output=True, text=True
    )


def check_request(request: Request, project: Path) -> None:
    """Stages and overrides must be this project's: told here, not after a night in the queue."""
    from pipelines.params import compose_params

    try:
        known = yaml.safe_load((project / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    except FileNotFoundError:
        raise UserError(f"no dvc.yaml in {project}", fix="run from the project's folder") from None
    for stage in request.stages:
        if stage.split("@")[0] not in known:
            raise UserError(f"no stage '{stage}'", allowed=known)
    for override in (*request.overrides, *request.variations):
        try:
            one_line(override)
        except ValueError as error:
            raise UserError(f"override {override!r} {error}") from error
    tasks = [[variation] for variation in request.variations] or [[]]
    for task in tasks:
        compose_params([*request.overrides, *task], project)
