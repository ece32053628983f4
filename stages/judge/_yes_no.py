"""The probability of yes: no text is generated and nothing parsed (ZYN, arXiv 2308.06385).

    value = p(yes) / (p(yes) + p(no)), and 1 - value where no is wanted

with p the probability of the word as the continuation of the prompt; the mean over the checks is
the ensemble of the paper. ZYN then scales to 10 * (mean - 0.5) for PPO; here the value stays in
[0, 1], in the same order. The formula divides the chance of both words out: how little it was is
recorded beside each value, and below `floor`, which ZYN does not have, a check fails: `off_words`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field, model_validator

from stages.judge._case import Answered, Case
from stages.judge._language import LanguageJudge
from stages.judge._verdict import Part, Verdict, by_rule, failed, mean_of_parts
from stages.llm.answer import Answer
from stages.llm.request import Request
from stages.runtime.variant import Settings

NEEDS = frozenset({"response", "check"})


class Check(Settings):
    """A question about a response, and the answer that speaks for it."""

    ask: str = Field(min_length=1)
    wanted: bool = Field(description="Whether yes speaks for the response")


class YesNoJudge(LanguageJudge):
    kind: Literal["yes_no"]
    checks: dict[str, Check] = Field(min_length=1)
    yes_word: str = Field(min_length=1, description="As the model begins an answer with it")
    no_word: str = Field(min_length=1)
    floor: float = Field(ge=0, lt=1, description="Least p(yes) + p(no) for a value; 0 is none")

    @model_validator(mode="after")
    def _two_words(self) -> Self:
        if self.yes_word == self.no_word:
            raise ValueError("yes_word and no_word are the same")
        return self


def probability(yes: float, no: float) -> float | None:
    """p(yes) / (p(yes) + p(no)) from the log-probabilities; None where both are impossible."""
    difference = no - yes
    if math.isnan(difference):  # of two infinities
        return None
    if difference > 0:
        return math.exp(-difference) / (1.0 + math.exp(-difference))
    return 1.0 / (1.0 + math.exp(difference))


def requests(judge: YesNoJudge, ask: str, case: Case) -> list[Request]:
    """Two scores for each well-formed candidate and check: of yes and of no."""
    return [
        Request(
            id=_id(case, candidate, name, word),
            prompt=case.messages(ask, response=candidate.text, check=check.ask),
            continuation=judge.yes_word if word == "yes" else judge.no_word,
            group=case.group,
        )
        for candidate in case.candidates
        if candidate.status == "ok"
        for name, check in judge.checks.items()
        for word in ("yes", "no")
    ]


def verdicts(judge: YesNoJudge, case: Case, answers: Mapping[str, Answer]) -> list[Verdict]:
    """One verdict a candidate."""
    return [
        _verdict(judge, case, candidate, answers)
        if candidate.status == "ok"
        else by_rule(candidate)
        for candidate in case.candidates
    ]


def _verdict(
    judge: YesNoJudge, case: Case, candidate: Answered, answers: Mapping[str, Answer]
) -> Verdict:
    parts = []
    used = []
    for name, check in judge.checks.items():
        yes, no = (answers[_id(case, candidate, name, word)] for word in ("yes", "no"))
        used += [yes, no]
        parts.append(_part(name, check, yes, no, judge.floor))
    return mean_of_parts(candidate.candidate_id, parts, [1.0] * len(parts), used)


def _part(name: str, check: Check, yes: Answer, no: Answer, floor: float) -> Part:
    lost = next((answer for answer in (yes, no) if answer.status != "ok"), None)
    if lost is not None:
        return Part(name, None, failed(lost), lost.detail)
    chances = [math.fsum(answer.logprobs or ()) for answer in (yes, no)]
    value = probability(*chances)
    if value is None:
        return Part(name, None, "failed:nan", "neither yes nor no is possible")
    mass = sum(math.exp(chance) for chance in chances)
    reason = f"p(yes) + p(no) = {mass:.3g}"
    if mass < floor:
        return Part(name, None, "failed:off_words", reason)
    return Part(name, value if check.wanted else 1.0 - value, "ok", reason)


def _id(case: Case, candidate: Answered, check: str, word: str) -> str:
    return f"{case.key}/{candidate.candidate_id}/{check}/{word}"
