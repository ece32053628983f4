"""Pairs of candidates of one question, each shown in both orders.

A judge that prefers a place rather than an answer says the same of both orders. Such a comparison
is recorded as `order_disagreement` and is no number; neither is one whose request failed. The
value of a candidate is its share of wins over its consistent comparisons, a tie counting half;
without any it is failed. `agreement` is the share of the comparisons answered by the judge that
are consistent.

With `pairs_per_question` a seeded schedule in which all candidates take their turns picks the
pairs. Two answers with the same words are level; the judge is not asked, so they say nothing about
its agreement.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Literal

from pydantic import Field

from schemas.ids import seeded
from stages.judge._case import Answered, Case
from stages.judge._language import WritingJudge
from stages.judge._reply import read_reply, reply_schema
from stages.judge._verdict import Part, Verdict, by_rule, failed
from stages.llm.answer import Answer
from stages.llm.request import Request

NEEDS = frozenset({"first", "second", "criterion", "choices"})
DISAGREE = "order_disagreement"
SAME_WORDS = "the same words"
"""The reason of a comparison that was not asked; the reasons of asked ones have two lines."""

Pair = tuple[Answered, Answered]


class PairwiseJudge(WritingJudge):
    kind: Literal["pairwise_lm"]
    criterion: str = Field(min_length=1, description="What makes a response the better one")
    ties: bool = Field(description="Whether the judge may call two responses equally good")
    pairs_per_question: int | None = Field(ge=1, description="null: all pairs")


def schedule(names: Sequence[str], limit: int | None, seed: int) -> list[tuple[str, str]]:
    """Every pair once, or the first `limit` of them: a seeded round-robin by the circle method.

    The names must differ. With an even number of them, how often two come differs by one at most.
    """
    places: list[str | None] = [*sorted(names)]
    random.Random(seed).shuffle(places)
    if len(places) % 2:
        places.append(None)  # whoever meets nobody sits out
    pairs = []
    for _ in range(len(places) - 1):
        for index in range(len(places) // 2):
            one, other = places[index], places[-1 - index]
            if one is not None and other is not None:
                pairs.append((one, other))
        places.insert(1, places.pop())
    return pairs[:limit]


def pairs(judge: PairwiseJudge, case: Case) -> list[Pair]:
    """The comparisons of a case; what is ill-formed has lost by rule and is not compared."""
    known = {c.candidate_id: c for c in case.candidates if c.status == "ok"}
    drawn = schedule(list(known), judge.pairs_per_question, seeded(judge.seed, "pairs", case.key))
    return [(known[one], known[other]) for one, other in drawn]


def requests(judge: PairwiseJudge, ask: str, case: Case) -> list[Request]:
    """Two requests for each pair whose answers differ."""
    choices = ["1", "2", "tie"] if judge.ties else ["1", "2"]
    named = ", ".join(f'"{choice}"' for choice in choices)
    schema = reply_schema("better", choices, judge.explanation_chars)
    return [
        Request(
            id=_id(case, first, second),
            prompt=case.messages(
                ask, first=first.text, second=second.text, criterion=judge.criterion, choices=named
            ),
            seed=judge.seed,
            schema=schema,
            group=case.group,
        )
        for one, other in pairs(judge, case)
        if one.text != other.text
        for first, second in ((one, other), (other, one))
    ]


def verdicts(judge: PairwiseJudge, case: Case, answers: Mapping[str, Answer]) -> list[Verdict]:
    """One verdict a candidate."""
    parts: dict[str, list[Part]] = {c.candidate_id: [] for c in case.candidates}
    tokens = dict.fromkeys(parts, (0, 0))
    for one, other in pairs(judge, case):
        part = _compare(case, one, other, answers)
        parts[one.candidate_id].append(part)
        parts[other.candidate_id].append(
            replace(part, name=one.candidate_id, value=None if part.value is None
                    else 1.0 - part.value)
        )  # fmt: skip
        # Each order's tokens count for the candidate that comes first in it.
        for first, second in ((one, other), (other, one)):
            answer = answers.get(_id(case, first, second))
            if answer is not None:
                read, written = tokens[first.candidate_id]
                tokens[first.candidate_id] = (
                    read + answer.n_prompt_tokens, written + answer.n_tokens,
                )  # fmt: skip
    return [
        by_rule(candidate)
        if candidate.status != "ok"
        else _verdict(
            candidate.candidate_id, parts[candidate.candidate_id], tokens[candidate.candidate_id]
        )
        for candidate in case.candidates
    ]


def _verdict(name: str, parts: Sequence[Part], tokens: tuple[int, int]) -> Verdict:
    values = [part.value for part in parts if part.value is not None]
    asked = [part for part in parts if part.reason != SAME_WORDS]
    agreed = sum(part.value is not None for part in asked)
    answered = agreed + sum(part.status == DISAGREE for part in asked)
    status = "ok"
    if not parts:
        status = "failed:no_opponent"
    elif not values:
        lost = (part.status for part in parts if part.status != DISAGREE)
        status = f"failed:{DISAGREE}" if answered else next(lost)
    return Verdict(
        name,
        fmean(values) if values else None,
        status,
        tuple(parts),
        agreed / answered if answered else None,
        *tokens,
    )


def _compare(case: Case, one: Answered, other: Answered, answers: Mapping[str, Answer]) -> Part:
    """The comparison as `one` sees it; its name is the opponent's."""
    if one.text == other.text:
        return Part(other.candidate_id, 0.5, "ok", SAME_WORDS)
    forth, back = answers[_id(case, one, other)], answers[_id(case, other, one)]
    lost = next((answer for answer in (forth, back) if answer.status != "ok"), None)
    if lost is not None:
        return Part(other.candidate_id, None, failed(lost), lost.detail)
    first, reason = read_reply(forth.text, "better")
    second, reason_back = read_reply(back.text, "better")
    value = {"1": 1.0, "2": 0.0, "tie": 0.5}[first]
    same = value == {"1": 0.0, "2": 1.0, "tie": 0.5}[second]
    return Part(
        other.candidate_id,
        value if same else None,
        "ok" if same else DISAGREE,
        f"{reason}\n{reason_back}",
    )


def _id(case: Case, first: Answered, second: Answered) -> str:
    return f"{case.key}/{first.candidate_id}/{second.candidate_id}"
