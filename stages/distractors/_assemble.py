"""Assembling contexts: gold documents first, then distractors in rank order to a token budget.

What every distractor variant shares: the budget of a question, the views, the seeded order, the
record of roles and positions, and the rule that no held-out gold document stands in a training
context. Token counts are of the rendered prompt, question and citation markers included.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from pydantic import Field

from schemas.errors import UserError
from schemas.ids import seeded
from stages.llm.library import load_documents
from stages.llm.prompts import (
    Document,
    Template,
    Tokenizer,
    count_tokens,
    load_template,
    render_prompt,
)
from stages.llm.tokenizer import load_tokenizer
from stages.runtime.context import StageContext
from stages.runtime.progress import track
from stages.runtime.variant import StageConfig

_BATCH = 128
_TIERS = ("tier1", "tier2", "filler")
Ranked = Iterable[tuple[str, str]]
"""Distractors as (doc_id, role), the one to take first first; may be all documents there are, since
no more are looked at than can fill the budget."""


class AssemblyConfig(StageConfig):
    """What every variant of this stage can set."""

    budgets: tuple[int, ...] = Field(min_length=1, description="Token budgets, drawn per question")
    prompt: str
    max_over_budget: float = Field(
        ge=0, le=1, description="Share of questions that may be dropped as too long for any budget"
    )
    seed: int = Field(ge=0)


@dataclass(frozen=True)
class Pool:
    """Token counts of all documents, and which documents a split must not see."""

    tokens: Mapping[str, int]
    doc_ids: tuple[str, ...]
    forbidden: Mapping[str, frozenset[str]]


def write_contexts(
    config: AssemblyConfig,
    context: StageContext,
    rank: Callable[[Mapping[str, Any], Pool], Ranked],
) -> dict[str, Any]:
    """Write `contexts` for all questions. `rank` gives a question's distractors in order."""
    template = load_template(config.prompt)
    tokenizer = load_tokenizer(context.model("tokenizer"))
    pool = load_pool(context)
    writer = context.writer("contexts")
    rows = context.read("questions")
    questions = over = 0
    total = context.dataset("questions").row_count
    sizes: list[int] = []
    filled: list[float] = []
    costs: dict[str, int] = {}
    for batch in _batches(track(rows, "contexts", total)):
        plans = []
        for question in batch:
            questions += 1
            missing = [doc for doc in question["gold_doc_ids"] if doc not in pool.tokens]
            if missing:
                for view in ("long", "short"):
                    writer.reject(
                        source=f"question {question['question_id']} ({view})",
                        rule="gold_document_missing",
                        reason=f"gold document {missing[0]} is not in documents",
                        content=question["question"],
                    )
                continue
            forbidden = pool.forbidden[question["split"]] | set(question["gold_doc_ids"])
            plans.append((question, _shortlist(rank(question, pool), forbidden, config, pool)))
        needed = [doc for question, _ in plans for doc in question["gold_doc_ids"]]
        needed += [doc for _, ranked in plans for doc, _ in ranked]
        library = load_documents(context.dataset("documents"), context.dataset("chunks"), needed)
        for question, ranked in plans:
            made = assemble(question, ranked, library, template, tokenizer, config, costs)
            if made is None:
                over += 1
                writer.drop("gold_over_budget", 2)
                continue
            for row in made:
                writer.add(row)
                if row["view"] == "long":
                    sizes.append(row["n_tokens"])
                    filled.append(row["n_tokens"] / row["budget_tokens"])
    if over > config.max_over_budget * questions:
        raise UserError(
            f"distractors: the gold documents of {over} of {questions} questions do not fit the "
            f"largest budget of {max(config.budgets)} tokens",
            fix="raise size.budgets in the profile (or -S 'distractors.budgets=[...]'), or "
            f"allow more with distractors.max_over_budget (now {config.max_over_budget})",
        )
    context.finish("contexts", rows_in=2 * questions)
    return {
        "questions": questions,
        "over_budget": over,
        "tokens_mean": round(sum(sizes) / max(len(sizes), 1), 2),
        "tokens_max": max(sizes, default=0),
        "budget_filled_mean": round(sum(filled) / max(len(filled), 1), 4),
    }


def load_pool(context: StageContext) -> Pool:
    """All documents' sizes. A split may not see gold documents of the splits held out from it."""
    tokens = {
        row["doc_id"]: row["n_tokens"]
        for row in context.read("documents", columns=["doc_id", "n_tokens"])
    }
    gold: dict[str, set[str]] = {"train": set(), "validation": set(), "test": set()}
    for row in context.read("questions", columns=["split", "gold_doc_ids"]):
        gold[row["split"]].update(row["gold_doc_ids"])
    return Pool(
        tokens,
        tuple(tokens),
        {
            "train": frozenset(gold["validation"] | gold["test"]),
            "validation": frozenset(gold["test"]),
            "test": frozenset(),
        },
    )


def assemble(
    question: Mapping[str, Any],
    ranked: Ranked,
    library: Mapping[str, Document],
    template: Template,
    tokenizer: Tokenizer,
    config: AssemblyConfig,
    costs: dict[str, int],
) -> list[dict[str, Any]] | None:
    """The rows of a question's views (long, short), or None if its gold fits no budget.

    The budget is drawn per question; if the gold documents do not fit it, the next larger one
    that they fit is taken. `costs` remembers the prompt tokens of single documents.
    """
    question_id, gold = question["question_id"], list(question["gold_doc_ids"])

    def tokens(doc_ids: Sequence[str]) -> int:
        documents = [library[doc_id] for doc_id in doc_ids]
        prompt = render_prompt(template, question["question"], documents, tokenizer)
        return count_tokens(tokenizer, prompt.text)

    order_seed = seeded(config.seed, "order", question_id)
    gold_tokens = tokens(_shuffled(gold, order_seed))
    drawn = config.budgets[seeded(config.seed, "budget", question_id) % len(config.budgets)]
    fitting = [b for b in sorted(config.budgets) if b >= max(gold_tokens, drawn)]
    if not fitting:
        return None
    budget = fitting[0]
    roles = dict.fromkeys(gold, "gold")
    room = budget - gold_tokens
    for doc_id, role in ranked:
        if doc_id in roles:
            continue
        if doc_id not in costs:
            costs[doc_id] = tokens([doc_id]) - tokens([])
        if costs[doc_id] <= room:
            roles[doc_id] = role
            room -= costs[doc_id]
    # Costs were counted one by one, with short citation markers; the prompt as a whole decides.
    # What is too much goes at once: a prompt of a thousand documents is slow to count.
    size = tokens(_shuffled(list(roles), order_seed))
    while size > budget:
        excess = size - budget
        while excess > 0 and len(roles) > len(gold):
            excess -= max(costs[roles.popitem()[0]], 1)
        size = tokens(_shuffled(list(roles), order_seed))
    rows = []
    for view, members, n_tokens in (
        ("long", list(roles), size),
        ("short", gold, gold_tokens),
    ):
        ordered = _shuffled(members, order_seed)
        present = {roles[doc_id] for doc_id in ordered}
        rows.append(
            {
                "question_id": question_id,
                "view": view,
                "split": question["split"],
                "documents": [{"doc_id": doc, "role": roles[doc]} for doc in ordered],
                "n_gold": len(gold),
                "n_tokens": n_tokens,
                "budget_tokens": budget,
                "gold_position": position(ordered, gold[-1], library),
                "hardest_tier": next((tier for tier in _TIERS if tier in present), "none"),
                "order_seed": order_seed,
            }
        )
    return rows


def position(ordered: Sequence[str], doc_id: str, library: Mapping[str, Document]) -> float:
    """Where a document starts: 0 if it is first, 1 if it is last, 0.5 if it is alone."""
    lengths = [len(library[doc].text) for doc in ordered]
    place = list(ordered).index(doc_id)
    others = sum(lengths) - lengths[place]
    return sum(lengths[:place]) / others if others else 0.5


def _shortlist(
    ranked: Ranked, forbidden: frozenset[str], config: AssemblyConfig, pool: Pool
) -> list[tuple[str, str]]:
    """The distractors that can come into question: twice the largest budget, in rank order.

    Bounds what is loaded and rendered; document token counts leave out the markers, so the real
    cut is made on the rendered prompt.
    """
    left = 2 * max(config.budgets)
    chosen = []
    for doc_id, role in ranked:
        if left <= 0:
            break
        if doc_id in forbidden or pool.tokens[doc_id] > max(config.budgets):
            continue
        chosen.append((doc_id, role))
        left -= pool.tokens[doc_id]
    return chosen


def _shuffled(doc_ids: Sequence[str], seed: int) -> list[str]:
    """A seeded order that does not depend on the order given."""
    ordered = sorted(doc_ids)
    random.Random(seed).shuffle(ordered)
    return ordered


def _batches(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while batch := list(islice(rows, _BATCH)):
        yield batch


def filler(
    question_id: str, pool: Pool, seed: int, count: int | None
) -> Iterator[tuple[str, Literal["filler"]]]:
    """Random documents of the pool, none twice, seeded by the question; `count` at most.

    A Fisher-Yates shuffle that goes as far as it is asked: a large pool costs what is taken of it.
    """
    generator = random.Random(seeded(seed, "filler", question_id))
    moved: dict[int, int] = {}
    size = len(pool.doc_ids)
    for left in range(size, size - min(size if count is None else count, size), -1):
        place = generator.randrange(left)
        yield pool.doc_ids[moved.get(place, place)], "filler"
        moved[place] = moved.get(left - 1, left - 1)
