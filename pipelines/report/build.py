"""`longline report`: everything about the last run in one file that opens offline.

    write_report(Path.cwd())   -> reports/index.html, reports/data_docs/DATASET.html

The page holds its styles and its charts (SVG) and needs no network and no other file. Whatever
comes from data or models is escaped. The same inputs give the same bytes. A stage that has not
run leaves a note with the command that runs it. Files are replaced in one step.
"""

from __future__ import annotations

from pathlib import Path

import yaml

from pipelines.report.accounting import accounts, stage_times
from pipelines.report.docs import write_data_docs, write_text
from pipelines.report.evaluation import evaluation, headline
from pipelines.report.facts import Workspace, git_revision
from pipelines.report.html import environment
from pipelines.report.integrity import checks
from pipelines.report.learning import learning_curves
from pipelines.report.lineage import draw, lineage
from pipelines.report.models import model_calls
from pipelines.report.quality import distributions, quality
from pipelines.report.samples import RULE, rollout_group, samples
from stages.runtime.layout import STAGES

INDEX = Path("reports") / "index.html"
SECTIONS = (
    ("headline", "Headline"),
    ("configuration", "Configuration"),
    ("lineage", "Lineage"),
    ("accounting", "Row accounting"),
    ("quality", "Data quality"),
    ("learning", "Learning curves"),
    ("evaluation", "Evaluation"),
    ("samples", "Samples"),
    ("reproduce", "How to reproduce"),
)


def write_report(root: Path) -> Path:
    """Write the report of the workspace at `root`; returns the path of its index.

    Raises `UserError` when nothing has run, or when a dataset is not what was written.
    """
    workspace = Workspace.open(root)
    try:
        documented = write_data_docs(workspace)
        page = render(workspace, documented)
    finally:
        workspace.db.close()
    target = root / INDEX
    write_text(target, page)
    return target


def render(workspace: Workspace, documented: list[str]) -> str:
    """The page as text; `documented` are the datasets that have a Data Docs page."""
    shown, kinds = samples(workspace)
    nodes = lineage(workspace)
    times = stage_times(workspace)
    finished = [time.time for time in times if time.time]
    return environment().get_template("index.html").render(
        sections=SECTIONS,
        params=workspace.params,
        configuration=_configuration(workspace),
        revision=git_revision(workspace.root),
        last_run=max(finished, default=None),
        metrics=workspace.metrics,
        headline=headline(workspace),
        checks=checks(workspace),
        graph_wide=draw(nodes, 1080) if nodes else None,
        graph_narrow=draw(nodes, 350) if nodes else None,
        locked=bool(workspace.lock),
        accounts=accounts(workspace),
        times=times,
        calls=model_calls(workspace),
        total_seconds=sum(time.seconds or 0.0 for time in times),
        quality=quality(workspace),
        distributions=distributions(workspace),
        documented=documented,
        curves=learning_curves(workspace),
        evaluation=evaluation(workspace),
        outcome=workspace.outcome_measure(),
        samples=shown,
        kinds=kinds,
        rule=RULE,
        group=rollout_group(workspace),
    )  # fmt: skip


def _configuration(workspace: Workspace) -> list[tuple[str, str, str]]:
    """(section, variant, YAML) of every stage, then of what they share."""
    shared = [
        key for key in ("seed", "prompt", "adapter", "size", "runtime") if key in workspace.params
    ]
    return [
        (
            section,
            workspace.variant(section) if section in STAGES else "shared",
            yaml.safe_dump(workspace.params[section], sort_keys=False, allow_unicode=True),
        )
        for section in [*STAGES, *shared]
        if section in workspace.params
    ]
