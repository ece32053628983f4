"""The gold response to a question: the target of the warm-up and the probe of a reward.

    <think> country, capital </think> The country of Lyon is France [2]. The capital of France is
    Paris [5]. Answer: Paris

The plan in the thinking part names the relations; each gold chunk is restated in the order of the
hops with its citation after the fact, so that the citation is the next thing to read off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stages.llm.prompts import Prompt, cite


def demonstration(
    question: Mapping[str, Any], prompt: Prompt, chunk_texts: Mapping[str, str]
) -> str:
    """The gold response. `chunk_texts` gives the text of each gold chunk by id."""
    plan = ", ".join(question["relations"])
    steps = restate(question["gold_chunk_ids"], prompt, chunk_texts)
    return f"<think> {plan} </think> {steps} Answer: {question['answer']}"


def restate(chunk_ids: Sequence[str], prompt: Prompt, chunk_texts: Mapping[str, str]) -> str:
    """The chunks' texts with their citation markers, joined into one paragraph."""
    return " ".join(
        cite(chunk_texts[chunk_id].strip(), prompt.markers[chunk_id]) for chunk_id in chunk_ids
    )
