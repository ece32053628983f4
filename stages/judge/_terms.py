"""Programmatic judges: the reward terms (stages/rewards) that score one candidate by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stages.judge._asking import Candidates, Judged
from stages.judge._verdict import Verdict
from stages.llm.library import items
from stages.llm.prompts import Template
from stages.rewards.build import entities_by_question, make_sample, row_status
from stages.rewards.sample import Sample, sample_response
from stages.rewards.spec import CitationTerm, EntityRecallTerm, FormatTerm, OutcomeTerm
from stages.rewards.terms import sample_value
from stages.runtime.context import StageContext

Term = OutcomeTerm | EntityRecallTerm | CitationTerm | FormatTerm


def by_terms(
    context: StageContext,
    terms: Mapping[str, Term],
    template: Template,
    candidates: Candidates,
) -> Iterator[Judged]:
    """A verdict of every term on every candidate. The template gives the citation numbers."""
    entities = entities_by_question(context.read("rubrics"))
    for view in sorted({view for view, _ in candidates}):
        splits = ["train", "validation", "test"]
        for item in items(context, template, None, view=view, splits=splits):
            question_id = item.question["question_id"]
            for candidate in candidates.get((view, question_id), ()):
                sample = make_sample(
                    item, candidate["text"], candidate["finish_reason"],
                    entities.get(question_id, ()),
                )  # fmt: skip
                for dimension, term in terms.items():
                    verdict = term_verdict(candidate["candidate_id"], term, sample)
                    yield Judged(dimension, term.kind, None, None, verdict)


def term_verdict(candidate_id: str, term: Term, sample: Sample) -> Verdict:
    """The value of a term, or the status of what it lacks."""
    response = sample_response(sample)
    value = sample_value(term, sample, response)
    status = "failed:no_reference" if value is None else row_status(response.status)
    return Verdict(candidate_id, value, status)
