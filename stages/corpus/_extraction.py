"""Triples that a language model reads out of the chunks, one request a chunk.

A model's triples have dirt (HippoRAG's file has 185 malformed ones in 17,419, and bare NaN;
methods.md section 6, defect 17). The answer is held to a JSON schema; a chunk whose request
failed, and every triple whose parts are empty or whose entities the chunk does not name, go to the
quarantine with the reason. The stage declares itself how many may: `max_quarantined`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import Field

from schemas.ids import seeded
from schemas.write import Bound
from stages.corpus._locate import names, stating_sentence
from stages.corpus._source import SourceTriple
from stages.corpus._spool import Spool, SpooledChunk
from stages.llm.answer import Answer
from stages.llm.instruction import Instruction, load_instruction
from stages.llm.layer import LanguageModel
from stages.llm.model import Model
from stages.llm.request import Request, Sampling
from stages.runtime.context import StageContext
from stages.runtime.rejected import Rejected, excerpt, is_unicode
from stages.runtime.variant import Settings

PROMPTS = Path(__file__).parent / "prompts"
NEEDS = frozenset({"title", "text"})
PARTS = ("head", "relation", "tail")
_CHUNKS_AT_ONCE = 5_000


class Extraction(Settings):
    model: Model
    prompt: str = Field(min_length=1, description="A template of stages/corpus/prompts, or a path")
    sampling: Sampling
    max_triples: int = Field(ge=1, description="Most triples of one chunk")
    part_chars: int = Field(ge=1, description="Longest head, relation or tail")
    max_quarantined: float = Field(
        ge=0, le=1, description="Share of triples in quarantine that is tolerated"
    )
    seed: int = Field(ge=0)

    @property
    def bound(self) -> Bound:
        """The stage's own bound, in place of the contract's."""
        return Bound(self.max_quarantined, "corpus.extraction", "corpus.extraction.max_quarantined")


def instruction(config: Extraction) -> Instruction:
    """The prompt template. `UserError` where it is wrong."""
    return load_instruction(config.prompt, PROMPTS, NEEDS)


def check(context: StageContext, config: Extraction) -> None:
    """A prompt that is wrong or a model that is not there is said before any work."""
    instruction(config)
    LanguageModel.of(context, config.model).close()


def extract_triples(
    context: StageContext, spool: Spool, config: Extraction
) -> Iterator[SourceTriple | Rejected]:
    """What the model finds in the chunks, in their order; a part of them at a time."""
    asked = instruction(config)
    chunks = spool.chunks()
    with LanguageModel.of(context, config.model) as model:
        while part := list(islice(chunks, _CHUNKS_AT_ONCE)):
            answers = model.ask(
                (request(config, asked, chunk) for chunk in part), config.sampling,
                label="triples",
            )  # fmt: skip
            for chunk in part:
                yield from triples_of(chunk, answers[place(chunk)])


def request(config: Extraction, asked: Instruction, chunk: SpooledChunk) -> Request:
    """What is asked about a chunk: the instruction first, which all chunks share."""
    text = {"type": "string", "minLength": 1, "maxLength": config.part_chars}
    triple = {
        "type": "object",
        "properties": dict.fromkeys(PARTS, text),
        "required": list(PARTS),
        "additionalProperties": False,
    }
    triples = {"type": "array", "items": triple, "maxItems": config.max_triples}
    schema = {
        "type": "object",
        "properties": {"triples": triples},
        "required": ["triples"],
        "additionalProperties": False,
    }
    return Request(
        id=place(chunk),
        prompt=asked.messages(title=chunk.title, text=chunk.text),
        seed=seeded(config.seed, "triples", chunk.doc_id, chunk.start),
        schema=json.dumps(schema),
        group="triples",
    )


def triples_of(chunk: SpooledChunk, answer: Answer) -> Iterator[SourceTriple | Rejected]:
    """The triples of one answer; what is none is rejected with its place."""
    if answer.status != "ok":
        rule = f"extraction_{answer.status}"
        yield Rejected(place(chunk), rule, answer.detail or answer.status, excerpt(chunk.text))
        return
    for number, triple in enumerate(json.loads(answer.text or "")["triples"]):
        yield _triple(chunk, f"{place(chunk)}[{number}]", [triple[part] for part in PARTS])


def place(chunk: SpooledChunk) -> str:
    """Where a chunk is, for messages and as the id of its request."""
    return f"{chunk.source}:{chunk.doc_id}:chunk {chunk.position}"


def _triple(chunk: SpooledChunk, where: str, parts: Sequence[str]) -> SourceTriple | Rejected:
    head, relation, tail = (" ".join(part.split()) for part in parts)
    fault = _defect(chunk.text, head, relation, tail)
    if fault is not None:
        return Rejected(where, *fault, excerpt(list(parts)))
    span = stating_sentence(chunk.text, head, tail)
    return SourceTriple(
        head, relation, tail, where, doc_id=chunk.doc_id,
        span=None if span is None else (span[0] + chunk.start, span[1] + chunk.start),
    )  # fmt: skip


def _defect(text: str, *parts: str) -> tuple[str, str] | None:
    """The rule that a triple breaks, and how."""
    if not is_unicode(*parts):
        return "invalid_unicode", "half of a surrogate pair"
    if not all(parts):
        return "malformed_triple", "a part is empty"
    head, _, tail = parts
    missing: Any = next((name for name in (head, tail) if not names(text, name)), None)
    if missing is not None:
        return "entity_not_in_text", f"the chunk does not name '{excerpt(missing, 100)}'"
    return None
