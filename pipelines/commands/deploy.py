"""`longline deploy`: templates for clusters. Nothing is sent anywhere."""

from __future__ import annotations

from pathlib import Path

import click

from pipelines.commands.run import Overrides, Stages

Output = click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Where to write it, in one step; default: standard output.",
)  # fmt: skip


@click.group()
def deploy() -> None:
    """Render what runs the pipeline on a cluster, from conf/deploy. Sends nothing anywhere.

    docs/deploy.md says when to use which.
    """


@deploy.command()
@click.option(
    "--config", type=click.Path(path_type=Path), default="conf/deploy/kubernetes.yaml",
    show_default=True, help="Image, resources, storage, names of secrets.",
)  # fmt: skip
@Output
def kubernetes(config: Path, output: Path | None) -> None:
    """The base job template of a Prefect Kubernetes work pool, as JSON."""
    import json

    from pipelines.deploy.config import Kubernetes, load
    from pipelines.deploy.kubernetes import job_template

    loaded = load(config, Kubernetes)
    _write(json.dumps(job_template(loaded), indent=2, ensure_ascii=False) + "\n", output)
    names = ", ".join(secret.variable for secret in loaded.secrets) or "none"
    click.echo(
        f"base job template of {config}: image: {loaded.image}, gpus: {loaded.gpus}, "
        f"secrets by name: {names}",
        err=True,
    )
    file = output or "FILE"
    create = f"prefect work-pool create NAME --type kubernetes --base-job-template {file}"
    click.echo(f"next: {create} (with --overwrite if there is one)", err=True)


@deploy.command()
@Stages
@Overrides
@click.option(
    "--array", "variations", multiple=True, metavar="KEY=VALUE",
    help="An array of jobs, one for each of these overrides, such as seed.train=1. Repeatable.",
)  # fmt: skip
@click.option(
    "--config", type=click.Path(path_type=Path), default="conf/deploy/slurm.yaml",
    show_default=True, help="Partition, resources, shared folders, names of variables.",
)  # fmt: skip
@Output
def slurm(
    stages: tuple[str, ...],
    overrides: tuple[str, ...],
    variations: tuple[str, ...],
    config: Path,
    output: Path | None,
) -> None:
    """A script for sbatch that runs `longline run` for STAGES (default: all) on one allocation.

    \b
    longline deploy slurm -o run.sbatch
    longline deploy slurm policy -S policy/reward=outcome --array seed.train=0 --array seed.train=1
    """
    from pipelines.deploy.config import Slurm, load
    from pipelines.deploy.slurm import Request, batch_script, uncommitted

    loaded = load(config, Slurm)
    project = Path.cwd()
    _write(batch_script(loaded, Request(stages, overrides, variations), project), output)
    jobs = f"an array of {len(variations)} jobs" if variations else "one job"
    click.echo(
        f"script of {config}: {jobs}, gpus: {loaded.gpus}, time: {loaded.time}, variables by name: "
        f"{', '.join(loaded.environment) or 'none'}",
        err=True,
    )
    if uncommitted(project / loaded.repository):
        click.echo("note: a job runs what is committed; there are changes that are not", err=True)
    click.echo(f"next: sbatch {output or 'FILE'}", err=True)


def _write(text: str, output: Path | None) -> None:
    from pipelines.report.docs import write_text

    if output is None:
        click.echo(text, nl=False)
    else:
        write_text(output, text)
