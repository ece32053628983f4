"""A panel of judges: each scores one dimension of every candidate in [0, 1].

A programmatic judge is a reward term (stages/rewards): answer metric, entity recall, cited chunks,
format. A language-model judge asks a model of its own, through the LLM layer: by a rubric
(`_rubric`), in pairs (`_pairwise`) or for the probability of yes (`_yes_no`). An ill-formed answer
scores 0 by rule and says so in its status; a judge that cannot score a candidate gives a status
and no value.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from stages.judge._asking import Candidates, Judged, ask_judges, rubric_criteria
from stages.judge._pairwise import PairwiseJudge
from stages.judge._rubric import RubricJudge
from stages.judge._terms import by_terms
from stages.judge._yes_no import YesNoJudge
from stages.llm.prompts import load_template
from stages.rewards.spec import CitationTerm, EntityRecallTerm, FormatTerm, OutcomeTerm
from stages.runtime.context import StageContext
from stages.runtime.progress import say
from stages.runtime.variant import StageConfig

_LANGUAGE = (RubricJudge, PairwiseJudge, YesNoJudge)

Judge = Annotated[
    OutcomeTerm | EntityRecallTerm | CitationTerm | FormatTerm
    | RubricJudge | PairwiseJudge | YesNoJudge,
    Field(discriminator="kind"),
]  # fmt: skip


class Config(StageConfig):
    kind: Literal["panel"]
    judges: dict[str, Judge] = Field(min_length=1, description="Dimension -> judge")
    prompt: str

    @model_validator(mode="after")
    def _candidates_alone(self) -> Self:
        for name, judge in self.judges.items():
            if isinstance(judge, EntityRecallTerm) and judge.group != "none":
                raise ValueError(
                    f"judge {name!r} scores candidates by themselves: it takes group: none, "
                    f"not {judge.group}"
                )
        return self


def run(config: Config, context: StageContext) -> dict[str, Any]:
    candidates: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    known: dict[str, dict[str, Any]] = {}
    for candidate in context.read("candidates"):
        known[candidate["candidate_id"]] = candidate
        candidates[candidate["view"], candidate["question_id"]].append(candidate)
    writer = context.writer("judgments")
    values: dict[str, list[float]] = defaultdict(list)
    agreements: dict[str, list[float]] = defaultdict(list)
    statuses: Counter[str] = Counter()
    for judged in _judgments(config, context, candidates):
        verdict = judged.verdict
        writer.add(judgment_row(known[verdict.candidate_id], judged))
        statuses[verdict.status] += 1
        if verdict.value is not None:
            values[judged.dimension].append(verdict.value)
        if verdict.agreement is not None:
            agreements[judged.dimension].append(verdict.agreement)
    context.finish("judgments", rows_in=len(known) * len(config.judges))
    say(f"statuses: {dict(sorted(statuses.items()))}")
    ill_formed = sum(n for status, n in statuses.items() if status.startswith("ill_formed"))
    return {
        "ill_formed": round(ill_formed / max(statuses.total(), 1), 4),
        "judges_failed": sum(n for status, n in statuses.items() if status.startswith("failed")),
        **{f"mean_{name}": round(sum(v) / len(v), 4) for name, v in sorted(values.items())},
        **{f"agreement_{name}": round(fmean(v), 4) for name, v in sorted(agreements.items())},
    }


def judgment_row(candidate: Mapping[str, Any], judged: Judged) -> dict[str, Any]:
    """The row of one verdict."""
    return {
        "candidate_id": candidate["candidate_id"],
        "question_id": candidate["question_id"],
        "split": candidate["split"],
        "dimension": judged.dimension,
        "judge": judged.judge,
        "model": judged.model,
        "prompt_hash": judged.prompt_hash,
        **judged.verdict.columns(),
    }


def _judgments(config: Config, context: StageContext, candidates: Candidates) -> Iterator[Judged]:
    """All verdicts. First those that ask models: whether these are there is known at once."""
    terms = {
        name: judge for name, judge in config.judges.items() if not isinstance(judge, _LANGUAGE)
    }
    asked = {name: judge for name, judge in config.judges.items() if isinstance(judge, _LANGUAGE)}
    template = load_template(config.prompt)
    if asked:
        rubrics = rubric_criteria(context.read("rubrics"))
        yield from ask_judges(context, asked, candidates, rubrics, template.thinking)
    if terms:
        yield from by_terms(context, terms, template, candidates)
