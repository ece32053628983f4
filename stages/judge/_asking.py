"""Putting the cases of a judging stage to its language-model judges, and reading the verdicts.

Requests stream from the questions into the LLM layer; of a case only what the verdict needs stays
in memory, which are the answers that are judged and not their documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from stages.judge import _pairwise, _rubric, _yes_no
from stages.judge._case import Case, Criterion, make_case
from stages.judge._pairwise import PairwiseJudge
from stages.judge._prompt import JudgePrompt, load_prompt
from stages.judge._rubric import RubricJudge
from stages.judge._verdict import Verdict
from stages.judge._yes_no import YesNoJudge
from stages.llm.layer import LanguageModel
from stages.llm.library import items
from stages.llm.model import Model
from stages.llm.request import Request
from stages.runtime.context import StageContext

Judge = RubricJudge | PairwiseJudge | YesNoJudge
Candidates = Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]
"""(view, question id) -> candidates"""

_MODULES: dict[type[Judge], ModuleType] = {
    RubricJudge: _rubric,
    PairwiseJudge: _pairwise,
    YesNoJudge: _yes_no,
}


@dataclass(frozen=True)
class Judged:
    """A verdict, by which judge of which dimension. Programmatic judges have no model or prompt."""

    dimension: str
    judge: str
    model: str | None
    prompt_hash: str | None
    verdict: Verdict


def prompt_of(judge: Judge) -> JudgePrompt:
    """The judge's template, checked for what the judge puts into it."""
    return load_prompt(judge.prompt, _MODULES[type(judge)].NEEDS)


def ask_judges(
    context: StageContext,
    judges: Mapping[str, Judge],
    candidates: Candidates,
    rubrics: Mapping[str, Sequence[Criterion]],
    thinking: bool = True,
) -> Iterator[Judged]:
    """A verdict of every judge on every candidate. A model that several judges name opens once.

    `thinking`: whether the candidates were asked for a thinking block.

    A wrong prompt and a model that is not there are errors before anything is asked.
    """
    prompts = {
        dimension: _reading(prompt_of(judge), thinking) for dimension, judge in judges.items()
    }
    by_model: dict[str, tuple[Model, list[str]]] = {}
    for dimension, judge in judges.items():
        by_model.setdefault(judge.model.model_dump_json(), (judge.model, []))[1].append(dimension)
    for model, _ in by_model.values():
        LanguageModel.of(context, model).close()
    for model, dimensions in by_model.values():
        with LanguageModel.of(context, model) as language_model:
            for dimension in dimensions:
                judge, prompt = judges[dimension], prompts[dimension]
                cases = _cases(context, judge, prompt, candidates, rubrics)
                for verdict in _verdicts(language_model, dimension, judge, prompt, cases):
                    yield Judged(dimension, judge.kind, model.label, prompt.hash, verdict)


def _reading(prompt: JudgePrompt, thinking: bool) -> JudgePrompt:
    """The judge's prompt; the answers in it are read in the layout that the candidates' has."""
    return replace(prompt, shared=replace(prompt.shared, thinking=thinking))


def rubric_criteria(rows: Iterator[Mapping[str, Any]]) -> dict[str, list[Criterion]]:
    """The criteria of each question, in the order of its rubric."""
    found: dict[str, list[Criterion]] = {}
    for row in rows:
        found.setdefault(row["question_id"], []).append(
            Criterion(str(row["position"]), row["criterion"], row["weight"])
        )
    return found


def _cases(
    context: StageContext,
    judge: Judge,
    prompt: JudgePrompt,
    candidates: Candidates,
    rubrics: Mapping[str, Sequence[Criterion]],
) -> Iterator[Case]:
    for view in sorted({view for view, _ in candidates}):
        splits = ["train", "validation", "test"]
        for item in items(context, prompt.shared, None, view=view, splits=splits):
            question_id = item.question["question_id"]
            found = candidates.get((view, question_id))
            if found:
                yield make_case(item, found, rubrics.get(question_id, ()), judge.reads)


def _verdicts(
    model: LanguageModel, dimension: str, judge: Judge, prompt: JudgePrompt, cases: Iterator[Case]
) -> Iterator[Verdict]:
    module = _MODULES[type(judge)]
    seen: list[Case] = []

    def requests() -> Iterator[Request]:
        for case in cases:
            seen.append(replace(case, head=""))
            yield from module.requests(judge, prompt.ask, case)

    sampling = None if isinstance(judge, YesNoJudge) else judge.sampling
    answers = model.ask(requests(), sampling, label=f"judge {dimension}")
    for case in seen:
        yield from module.verdicts(judge, case, answers)
