"""A panel of programmatic judges: each scores one dimension of every candidate in [0, 1].

A judge is a reward term (stages/rewards): answer metric, entity recall, cited chunks, format. An
ill-formed answer scores 0 by rule and says so in its status; a judge that cannot score a candidate
gives a status and no value.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from stages.llm.library import items
from stages.llm.prompts import load_template
from stages.rewards.build import entities_by_question, make_sample, row_status
from stages.rewards.response import parse_response
from stages.rewards.sample import Sample
from stages.rewards.spec import CitationTerm, EntityRecallTerm, FormatTerm, OutcomeTerm
from stages.rewards.terms import sample_value
from stages.runtime.context import StageContext
from stages.runtime.progress import say
from stages.runtime.variant import StageConfig

Judge = Annotated[
    OutcomeTerm | EntityRecallTerm | CitationTerm | FormatTerm, Field(discriminator="kind")
]


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
    entities = entities_by_question(context.read("rubrics"))
    by_question: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    expected = 0
    for candidate in context.read("candidates"):
        expected += len(config.judges)
        by_question[candidate["view"], candidate["question_id"]].append(candidate)
    writer = context.writer("judgments")
    values: dict[str, list[float]] = defaultdict(list)
    statuses: Counter[str] = Counter()
    judged = 0
    for view in sorted({view for view, _ in by_question}):
        for item in items(
            context,
            load_template(config.prompt),
            None,
            view=view,
            splits=["train", "validation", "test"],
        ):
            question_id = item.question["question_id"]
            for candidate in by_question.get((view, question_id), ()):
                sample = make_sample(
                    item, candidate["text"], candidate["finish_reason"],
                    entities.get(question_id, ()),
                )  # fmt: skip
                for row in judge_candidate(config, candidate, sample):
                    judged += 1
                    writer.add(row)
                    statuses[row["status"]] += 1
                    if row["value"] is not None:
                        values[row["dimension"]].append(row["value"])
    context.finish("judgments", rows_in=expected)
    say(f"statuses: {dict(sorted(statuses.items()))}")
    return {
        "ill_formed": round(
            sum(n for status, n in statuses.items() if status.startswith("ill_formed"))
            / max(judged, 1),
            4,
        ),
        "judges_failed": sum(n for status, n in statuses.items() if status.startswith("failed")),
        **{
            f"mean_{dimension}": round(sum(found) / len(found), 4)
            for dimension, found in sorted(values.items())
        },
    }


def judge_candidate(
    config: Config, candidate: dict[str, Any], sample: Sample
) -> list[dict[str, Any]]:
    """One row per dimension."""
    response = parse_response(sample.text, sample.finish_reason)
    rows = []
    for dimension, judge in config.judges.items():
        value = sample_value(judge, sample, response)
        rows.append(
            {
                "candidate_id": candidate["candidate_id"],
                "question_id": candidate["question_id"],
                "split": candidate["split"],
                "dimension": dimension,
                "judge": judge.kind,
                "value": value,
                "status": "failed:no_reference" if value is None else row_status(response.status),
            }
        )
    return rows
