"""A scripted search agent, whose trace gives documents their tier (LongTraceRL, arXiv 2605.31584).

The paper lets a language model search; this agent follows the gold chain: it searches the
question, then each hop's entity and relation, opens results from the top until it has opened the
hop's gold document or has spent its opens, and cites the gold documents that it opened. What it
opened and did not cite was worth opening (tier 1); what a search returned and it never opened
only looked related (tier 2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from stages.distractors._index import SearchIndex


@dataclass(frozen=True)
class Action:
    action: Literal["search", "open", "cite"]
    doc_ids: tuple[str, ...]
    query: str | None = None


def search_trace(
    question: Mapping[str, Any], index: SearchIndex, top_k: int, opens: int
) -> list[Action]:
    """What the agent does for one question. `opens` is the number of results opened per search."""
    gold = question["gold_doc_ids"]
    trace: list[Action] = []
    opened: list[str] = []
    targets: list[str | None] = [None, *gold]
    for query, target in zip(queries(question), targets, strict=False):
        results = index.search(query, top_k)
        trace.append(Action("search", tuple(results), query))
        for result in results[:opens]:
            if result not in opened:
                opened.append(result)
                trace.append(Action("open", (result,)))
            if result == target:
                break
    trace.append(Action("cite", tuple(document for document in gold if document in opened)))
    return trace


def queries(question: Mapping[str, Any]) -> list[str]:
    """The question, then one query per hop from the entity reached so far and the relation."""
    relations = question["relations"]
    if not relations:
        return [question["question"], *question["entities"]]
    hops = [f"{relations[0]} {question['question']}"]
    hops += [
        f"{relation} {entity}"
        for relation, entity in zip(relations[1:], question["entities"], strict=False)
    ]
    return [question["question"], *hops]


def tiers(trace: Sequence[Action], gold: Sequence[str]) -> tuple[list[str], list[str]]:
    """(tier 1, tier 2) in the order in which the agent met them; gold documents are neither."""
    opened = [doc for act in trace if act.action == "open" for doc in act.doc_ids]
    cited = {doc for act in trace if act.action == "cite" for doc in act.doc_ids} | set(gold)
    returned = [doc for act in trace if act.action == "search" for doc in act.doc_ids]
    first = [doc for doc in dict.fromkeys(opened) if doc not in cited]
    second = [doc for doc in dict.fromkeys(returned) if doc not in cited and doc not in opened]
    return first, second
