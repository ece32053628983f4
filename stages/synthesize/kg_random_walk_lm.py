"""Random walks as in `kg_random_walk`, their questions reworded by a language model.

The walks are the same; only the words differ. What the model got wrong, or did not answer, is
counted under `wording:REASON`: the question is dropped, or keeps its template wording.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from schemas.ids import content_id
from stages.llm.layer import LanguageModel
from stages.runtime.context import StageContext
from stages.runtime.progress import say
from stages.synthesize._rewording import Rewording, Worded, instruction, requests, reworded
from stages.synthesize.kg_random_walk import WalkConfig, Walked, write_questions


class Config(WalkConfig):
    kind: Literal["kg_random_walk_lm"]
    rewording: Rewording


def run(config: Config, context: StageContext) -> dict[str, Any]:
    rewording = config.rewording
    digest = instruction(rewording).hash
    reasons: Counter[str] = Counter()

    def word(walked: Sequence[Walked]) -> Iterator[dict[str, Any] | str]:
        questions = [
            Worded(row["question_id"], row["question"], path[0].head, row["entities"])
            for path, row in walked
        ]
        answers = model.ask(requests(rewording, questions), rewording.sampling)
        found = reworded(questions, answers)
        for _, row in walked:
            text, reason = found[row["question_id"]]
            reasons[reason] += 1
            if text is not None:
                yield with_words(row, text, digest)
            elif rewording.on_failure == "keep":
                yield row
            else:
                yield f"wording:{reason}"

    with LanguageModel.of(context, rewording.model) as model:
        metrics = write_questions(config, context, word)
    say(f"wordings: {dict(sorted(reasons.items()))}")
    return {
        **metrics,
        "reworded": reasons.pop("ok", 0),
        "not_reworded": dict(sorted(reasons.items())),
    }


def with_words(row: dict[str, Any], question: str, digest: str) -> dict[str, Any]:
    """The row of a question in other words; its id is that of the words and the evidence."""
    return {
        **row,
        "question_id": content_id(question, *row["gold_doc_ids"]),
        "question": question,
        "source": "kg_random_walk_lm",
        "wording": digest,
    }
