"""Multi-hop questions from random walks over the knowledge graph (LongTraceRL, arXiv 2605.31584,
section on data construction).

A walk v0 -> v1 -> ... -> vn follows triples; each step is stated in one document. The documents
are the gold documents, in order; v1..vn are the gold entities; vn is the answer. The paper words
the walk with a language model, as the variant `kg_random_walk_lm` does; here a template names v0
and the relations.

A walk is kept only if its question has one answer: each (head, relation) on it has exactly one
tail in the whole graph, no entity or document comes twice, and no other question of the run has
the same start and relations. Walks stay inside one split of the documents.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from schemas.errors import UserError
from schemas.ids import content_id, seeded
from stages.llm.wording import Wording, load_wording
from stages.metrics.answers import normalise
from stages.runtime.context import StageContext
from stages.runtime.progress import say
from stages.runtime.variant import Settings, StageConfig, Weights
from stages.synthesize._splits import SplitShares, split_regions

SPLITS: tuple[Literal["train", "validation", "test"], ...] = ("train", "validation", "test")


class SplitCounts(Settings):
    """Questions wanted in each split."""

    train: int = Field(ge=1)
    validation: int = Field(ge=0)
    test: int = Field(ge=1)


class WalkConfig(StageConfig):
    """What every variant that walks is told."""

    questions: SplitCounts
    hop_weights: Weights = Field(description="Weights of 1, 2, 3, ... hops")
    splits: SplitShares
    wording: str
    attempts: int = Field(ge=1, description="Walks tried for each wanted question")
    seed: int = Field(ge=0)


class Config(WalkConfig):
    kind: Literal["kg_random_walk"]


@dataclass(frozen=True)
class Edge:
    """A triple with its evidence: the document and the chunks of the stating sentence."""

    head: str
    relation: str
    tail: str
    doc_id: str
    chunk_ids: tuple[str, ...]


@dataclass(frozen=True)
class Graph:
    """Edges by normalised head, with what makes a question ambiguous."""

    edges: tuple[Edge, ...]
    by_head: Mapping[str, Sequence[Edge]]
    tails: Mapping[tuple[str, str], frozenset[str]]

    def ambiguous(self, edge: Edge) -> bool:
        return len(self.tails[normalise(edge.head), normalise(edge.relation)]) > 1


Walked = tuple[tuple[Edge, ...], dict[str, Any]]
"""A walk and the row of its question."""


def run(config: Config, context: StageContext) -> dict[str, Any]:
    return write_questions(config, context, lambda walked: [row for _, row in walked])


def write_questions(
    config: WalkConfig,
    context: StageContext,
    word: Callable[[Sequence[Walked]], Iterable[dict[str, Any] | str]],
) -> dict[str, Any]:
    """Walk, and write the rows that `word` makes of the walks; a string is a reason to drop one."""
    graph, unusable = load_graph(context)
    if not graph.edges:
        raise UserError(
            "the knowledge graph has no triple with a known sentence, so there is nothing to walk",
            fix="use a corpus with triples (corpus=atlas), or synthesize=import_qa",
        )
    split_of = split_regions(document_links(graph), config.splits, config.seed)
    writer = context.writer("questions")
    wording = load_wording(config.wording)
    seen: set[tuple[str, ...]] = set()
    walked: list[Walked] = []
    tried = 0
    for split in SPLITS:
        wanted = getattr(config.questions, split)
        before = len(walked)
        for outcome in sample_walks(graph, split_of, split, wanted, config, seen):
            tried += 1
            if isinstance(outcome, str):
                writer.drop(outcome)
            else:
                walked.append((outcome, question_row(outcome, split, wording)))
        found = len(walked) - before
        if found < wanted:
            say(
                f"{split}: {found} of {wanted} questions from {config.attempts} walks for "
                "each; more synthesize.attempts may find more"
            )
    counts: Counter[str] = Counter()
    for row in word(walked):
        if isinstance(row, str):
            writer.drop(row)
        else:
            counts[row["split"]] += 1
            writer.add(row)
    context.finish("questions", rows_in=tried)
    return {
        "questions": {split: counts[split] for split in SPLITS},
        "walks_tried": tried,
        "triples_without_sentence": unusable,
    }


def load_graph(context: StageContext) -> tuple[Graph, int]:
    """The walkable graph, and the number of triples left out for want of a sentence."""
    chunks: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
    for row in context.read("chunks"):
        chunks[row["doc_id"]].append((row["chunk_id"], row["char_start"], row["char_end"]))
    edges = []
    tails: dict[tuple[str, str], set[str]] = defaultdict(set)
    unusable = 0
    for row in context.read("triples"):
        head, tail = normalise(row["head"]), normalise(row["tail"])
        tails[head, normalise(row["relation"])].add(tail)
        if row["char_start"] is None:
            unusable += 1
            continue
        evidence = tuple(
            chunk_id
            for chunk_id, start, end in chunks[row["doc_id"]]
            if start < row["char_end"] and end > row["char_start"]
        )
        edges.append(Edge(row["head"], row["relation"], row["tail"], row["doc_id"], evidence))
    by_head: dict[str, list[Edge]] = defaultdict(list)
    for edge in edges:
        by_head[normalise(edge.head)].append(edge)
    frozen = {key: frozenset(values) for key, values in tails.items()}
    return Graph(tuple(edges), by_head, frozen), unusable


def document_links(graph: Graph) -> dict[str, list[str]]:
    """Documents linked by a possible step of a walk, in both directions."""
    links: dict[str, set[str]] = {edge.doc_id: set() for edge in graph.edges}
    for edge in graph.edges:
        for following in graph.by_head.get(normalise(edge.tail), ()):
            if following.doc_id != edge.doc_id:
                links[edge.doc_id].add(following.doc_id)
                links[following.doc_id].add(edge.doc_id)
    return {document: sorted(linked) for document, linked in links.items()}


def sample_walks(
    graph: Graph,
    split_of: Mapping[str, str],
    split: str,
    wanted: int,
    config: WalkConfig,
    seen: set[tuple[str, ...]],
) -> Iterator[tuple[Edge, ...] | str]:
    """Walks of one split until `wanted` are found or the attempts are used up.

    Yields a walk, or the reason why a try gave none.
    """
    starts = [edge for edge in graph.edges if split_of[edge.doc_id] == split]
    if not starts or not wanted:
        return
    generator = random.Random(seeded(config.seed, "walks", split))
    lengths = range(1, len(config.hop_weights) + 1)
    found = 0
    for _ in range(wanted * config.attempts):
        if found == wanted:
            return
        hops = generator.choices(lengths, config.hop_weights)[0]
        outcome = walk(graph, generator.choice(starts), hops, split_of, generator)
        if not isinstance(outcome, str):
            key = (normalise(outcome[0].head), *(normalise(edge.relation) for edge in outcome))
            if key in seen:
                outcome = "duplicate_question"
            else:
                seen.add(key)
                found += 1
        yield outcome


def walk(
    graph: Graph,
    start: Edge,
    hops: int,
    split_of: Mapping[str, str],
    generator: random.Random,
) -> tuple[Edge, ...] | str:
    """A walk of `hops` edges from `start` inside its split, or why there is none."""
    split = split_of[start.doc_id]
    if graph.ambiguous(start):
        return "ambiguous_relation"
    path = [start]
    entities = {normalise(start.head), normalise(start.tail)}
    while len(path) < hops:
        documents = {edge.doc_id for edge in path}
        steps = [
            edge
            for edge in graph.by_head.get(normalise(path[-1].tail), ())
            if split_of[edge.doc_id] == split
            and edge.doc_id not in documents
            and normalise(edge.tail) not in entities
            and not graph.ambiguous(edge)
        ]
        if not steps:
            return "dead_end"
        path.append(generator.choice(steps))
        entities.add(normalise(path[-1].tail))
    return tuple(path)


def question_row(path: Sequence[Edge], split: str, wording: Wording) -> dict[str, Any]:
    """The row of one question. Gold entities leave out v0, which the question names."""
    relations = [edge.relation for edge in path]
    question = wording.ask(path[0].head, relations)
    chunk_ids = list(dict.fromkeys(chunk for edge in path for chunk in edge.chunk_ids))
    return {
        "question_id": content_id(question, *(edge.doc_id for edge in path)),
        "split": split,
        "question": question,
        "answer": path[-1].tail,
        "aliases": [],
        "entities": [edge.tail for edge in path],
        "relations": relations,
        "gold_doc_ids": [edge.doc_id for edge in path],
        "gold_chunk_ids": chunk_ids,
        "hops": len(path),
        "task_type": "multi_hop" if len(path) > 1 else "single_hop",
        "metric": "exact_match",
        "source": "kg_random_walk",
        "source_id": None,
        "wording": wording.hash,
    }
