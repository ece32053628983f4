"""What is scored (`Sample`) and what comes out (`Reward`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stages.rewards.response import Response, parse_response


@dataclass(frozen=True)
class Sample:
    """One rollout with the references of its question.

    `text` is the decoded completion, `finish_reason` the engine's, `metric` a name of
    `stages.metrics.answers.METRICS`; `gold_citations` are the numbers that the gold documents
    bear in this rollout's prompt; `thinking` says whether that asked for a thinking block.
    """

    question_id: str
    text: str
    finish_reason: str
    metric: str
    golds: tuple[str, ...]
    entities: tuple[str, ...]
    gold_citations: tuple[int, ...]
    thinking: bool = True


def sample_response(sample: Sample) -> Response:
    """The response of a sample, read in the layout that its prompt asked for."""
    return parse_response(sample.text, sample.finish_reason, sample.thinking)


@dataclass(frozen=True)
class Reward:
    """The reward of one rollout, by term name.

    `raw` is a term before squashing and the group step, `parts` after them, `value` their
    combination. None in `parts` is a term that failed; in `raw` also one that was not asked (a
    reward model on an ill-formed response). `value` is None exactly when `status` is
    `failed:TERM`; otherwise `status` is the response's.
    """

    value: float | None
    parts: dict[str, float | None]
    raw: dict[str, float | None]
    status: str


RewardModel = Callable[[Sequence[Sample]], Sequence[float | None]]
