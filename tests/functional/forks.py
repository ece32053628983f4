"""`longline`, `dvc` and stages in forks of one process that has imported them: for tests that start
them often. Everything else is as in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.functional.dags import Project
from tests.functional.processes import MARK, Running, change

# What they import; a fork that finds it imported starts seconds sooner. Python has one such process
# and reads the names when it starts it, so that everything is named here.
_IMPORTED = (
    "datasets", "great_expectations", "jsonschema", "openai", "peft", "stages.__main__",
    "stages.candidates.sample", "stages.corpus.hotpotqa", "stages.corpus.musique",
    "stages.distractors.random", "stages.distractors.tiered", "stages.rubrics.gold_entity_chain",
    "stages.synthesize.import_qa", "stages.synthesize.kg_random_walk", "torch", "transformers",
    "transformers.models.lfm2.modeling_lfm2", "transformers.trainer_utils",
    "pipelines.cli", "pipelines.dag.project", "pipelines.flow.pipeline", "pipelines.flow.start",
    "pipelines.flow.console", "pipelines.plan", "pipelines.plan_text", "hydra",
    "dvc.analytics", "dvc.cachemgr", "dvc.cli.parser", "dvc.data_cloud", "dvc.dirs", "dvc.lock",
    "dvc.repo.artifacts", "dvc.repo.datasets", "dvc.repo.graph", "dvc.repo.index",
    "dvc.repo.metrics", "dvc.repo.open_repo", "dvc.repo.params", "dvc.repo.plots",
    "dvc.repo.reproduce", "dvc.repo.stage", "dvc.rwlock", "dvc.scm", "dvc.stage.cache",
    "dvc.utils.strictyaml", "dvc_data.hashfile.build", "dvc_data.hashfile.db.local", "networkx",
    "pyparsing", "ruamel.yaml", "scmrepo.git",
)  # fmt: skip

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([__name__, *_IMPORTED])


class Forks:
    """Starts the programs `longline`, `dvc` and `stages`."""

    def start(
        self,
        project: Project,
        program: str,
        *arguments: str,
        constants: Mapping[str, float] | None = None,
        **environment: str,
    ) -> Running:
        mark = uuid.uuid4().hex
        output = project.path.parent / f"{project.path.name}-{mark}.log"
        whole = {**project.environment, MARK: mark, **environment}
        process = FORKS.Process(
            target=_as_program,
            args=(str(project.path), whole, output, program, arguments, dict(constants or {})),
        )
        process.start()
        return Running.now(process, output, mark)

    def run(self, project: Project, program: str, *arguments: str) -> Running:
        """Start it and wait until it has ended, with whatever status."""
        running = self.start(project, program, *arguments)
        running.wait(None)
        return running


def _as_program(
    folder: str,
    environment: dict[str, str],
    output: Path,
    program: str,
    arguments: Sequence[str],
    constants: Mapping[str, float],
) -> None:
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for descriptor in (1, 2):
        os.dup2(file, descriptor)
    os.close(file)
    sys.argv = [program, *arguments]
    if program == "dvc":
        from dvc.cli import main as dvc

        sys.exit(dvc(list(arguments)))
    if program == "stages":
        from stages.__main__ import main as stages

        sys.exit(stages(list(arguments)))
    from prefect.context import refresh_global_settings_context

    from pipelines.cli import main as longline

    refresh_global_settings_context()  # of this environment
    change(constants)
    longline(list(arguments))


@pytest.fixture(scope="session")
def forks() -> Forks:
    return Forks()
