"""Point-wise scoring by a rubric: each criterion of each candidate is a question of its own.

The form is R3's (arXiv 2505.13388): a score on a declared scale with an explanation; the scale
{lowest: 0, highest: 1} is its binary form. A score s counts as (s - lowest) / (highest - lowest),
the value of a candidate is the mean over the criteria by their weights. The criteria come behind
the answer in the prompt, so that answer and documents are read once for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field, model_validator

from stages.judge._case import Answered, Case, Criterion
from stages.judge._language import WritingJudge
from stages.judge._reply import read_reply, reply_schema
from stages.judge._verdict import Part, Verdict, by_rule, failed, mean_of_parts
from stages.llm.answer import Answer
from stages.llm.request import Request
from stages.runtime.variant import Settings

NEEDS = frozenset({"response", "criterion", "lowest", "highest", "levels"})


class Scale(Settings):
    """Whole numbers from the worst to the best, and what some of them mean."""

    lowest: int
    highest: int
    levels: dict[int, str]

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.lowest < self.highest <= self.lowest + 100:
            raise ValueError("a scale goes from lowest up to highest, in at most 100 steps")
        outside = [n for n in self.levels if not self.lowest <= n <= self.highest]
        if outside:
            raise ValueError(f"level {outside[0]} is not on the scale")
        return self

    def unit(self, score: int) -> float:
        """A score as a number from 0 to 1."""
        return (score - self.lowest) / (self.highest - self.lowest)


class RubricJudge(WritingJudge):
    kind: Literal["rubric_lm"]
    scale: Scale
    criteria: dict[str, str] | None = Field(
        description="Name -> criterion, with equal weights; null: the rubric of the question"
    )

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.criteria is not None and not self.criteria:
            raise ValueError("criteria must name one, or be null")
        return self


def criteria(judge: RubricJudge, case: Case) -> tuple[Criterion, ...]:
    """What a candidate is judged by."""
    if judge.criteria is None:
        return case.rubric
    return tuple(Criterion(name, text, 1.0) for name, text in judge.criteria.items())


def requests(judge: RubricJudge, ask: str, case: Case) -> list[Request]:
    """One request for each well-formed candidate and criterion."""
    scale = judge.scale
    schema = reply_schema("score", range(scale.lowest, scale.highest + 1), judge.explanation_chars)
    levels = "\n".join(f"{score}: {text}" for score, text in sorted(scale.levels.items()))
    return [
        Request(
            id=_id(case, candidate, number),
            prompt=case.messages(
                ask, response=candidate.text, criterion=criterion.text,
                lowest=str(scale.lowest), highest=str(scale.highest), levels=levels,
            ),
            seed=judge.seed,
            schema=schema,
            group=case.group,
        )
        for candidate in case.candidates
        if candidate.status == "ok"
        for number, criterion in enumerate(criteria(judge, case))
    ]  # fmt: skip


def verdicts(judge: RubricJudge, case: Case, answers: Mapping[str, Answer]) -> list[Verdict]:
    """One verdict a candidate."""
    return [_verdict(judge, case, candidate, answers) for candidate in case.candidates]


def _verdict(
    judge: RubricJudge, case: Case, candidate: Answered, answers: Mapping[str, Answer]
) -> Verdict:
    asked = criteria(judge, case)
    if not asked:
        return Verdict(candidate.candidate_id, None, "failed:no_reference")
    if candidate.status != "ok":
        return by_rule(candidate)
    found = [answers[_id(case, candidate, number)] for number in range(len(asked))]
    parts = [_part(judge, c, answer) for c, answer in zip(asked, found, strict=True)]
    return mean_of_parts(candidate.candidate_id, parts, [c.weight for c in asked], found)


def _part(judge: RubricJudge, criterion: Criterion, answer: Answer) -> Part:
    if answer.status != "ok":
        return Part(criterion.name, None, failed(answer), answer.detail)
    score, explanation = read_reply(answer.text, "score")
    return Part(criterion.name, judge.scale.unit(int(score)), "ok", explanation)


def _id(case: Case, candidate: Answered, number: int) -> str:
    return f"{case.key}/{candidate.candidate_id}/{number}"
