"""Counterfactual worlds: pages of facts that are false, to learn reading from.

A model that is trained on true facts can recite them; in a world where they are all false it must
read. Entities keep their type, and each fact is worded as the corpus words that relation, so every
name of the corpus is trained and none of its facts is shown: a value that the corpus states for
an entity and relation is never drawn, for documents of any split.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.errors import UserError
from stages.llm.prompts import Chunk, Document


@dataclass(frozen=True)
class Relation:
    """How the corpus words a relation (with {head} and {tail}), and between which types."""

    name: str
    sentence: str
    head_type: str
    tail_type: str


@dataclass(frozen=True)
class Vocabulary:
    """What worlds are made of. `stated` holds the corpus's values, which are never drawn."""

    relations: Mapping[str, tuple[Relation, ...]]
    """By head type."""
    subjects: Mapping[str, tuple[str, ...]]
    values: Mapping[str, tuple[str, ...]]
    stated: Mapping[tuple[str, str], frozenset[str]]


@dataclass(frozen=True)
class Fact:
    head: str
    relation: Relation
    tail: str
    chunk_id: str

    def sentence(self) -> str:
        return self.relation.sentence.replace("{head}", self.head).replace("{tail}", self.tail)


@dataclass(frozen=True)
class World:
    """Pages in prompt order, and the facts of each head."""

    documents: tuple[Document, ...]
    facts: Mapping[str, tuple[Fact, ...]]


def read_vocabulary(triples: Iterable[Mapping[str, Any]], texts: Mapping[str, str]) -> Vocabulary:
    """Learn wordings, types and values from typed triples with a sentence.

    Raises `UserError` if the corpus has none: then there is nothing to make worlds of.
    """
    relations: dict[tuple[str, str], Relation] = {}
    subjects: dict[str, set[str]] = defaultdict(set)
    values: dict[str, set[str]] = defaultdict(set)
    stated: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in triples:
        stated[row["head"], row["relation"]].add(row["tail"])
        if row["head_type"] is None or row["tail_type"] is None or row["char_start"] is None:
            continue
        subjects[row["head_type"]].add(row["head"])
        values[row["tail_type"]].add(row["tail"])
        sentence = texts[row["doc_id"]][row["char_start"] : row["char_end"]].strip()
        key = (row["head_type"], row["relation"])
        if key not in relations and sentence.count(row["head"]) == sentence.count(row["tail"]) == 1:
            wording = sentence.replace(row["head"], "{head}").replace(row["tail"], "{tail}")
            relations[key] = Relation(row["relation"], wording, row["head_type"], row["tail_type"])
    if not relations:
        raise UserError(
            "warmup=from_scratch needs typed triples with their sentence to make worlds from, and "
            "this corpus has none",
            fix="use corpus=atlas, or warmup=pass_through with a model that can read",
        )
    by_type: dict[str, list[Relation]] = defaultdict(list)
    for (head_type, _), relation in sorted(relations.items()):
        by_type[head_type].append(relation)
    for head_type, names in subjects.items():
        values[head_type] |= names
    return Vocabulary(
        {key: tuple(found) for key, found in sorted(by_type.items())},
        {key: tuple(sorted(subjects[key])) for key in sorted(by_type)},
        {key: tuple(sorted(found)) for key, found in sorted(values.items())},
        {key: frozenset(found) for key, found in stated.items()},
    )


def make_world(
    vocabulary: Vocabulary, generator: random.Random, facts: int, linked: float
) -> World:
    """A world of `facts` false facts on a handful of pages.

    Where a value can have a page, it is one of this world's with probability `linked`, so that
    there are walks of several hops.
    """
    types = list(vocabulary.relations)
    pages: dict[str, str] = {}
    for _ in range(max(3, facts // 2)):
        kind = generator.choice(types)
        pages.setdefault(generator.choice(vocabulary.subjects[kind]), kind)
    members: dict[str, list[str]] = defaultdict(list)
    for entity, kind in pages.items():
        members[kind].append(entity)
    made: dict[str, list[Fact]] = {}
    count = 0
    for entity, kind in pages.items():
        relations = list(vocabulary.relations[kind])
        generator.shuffle(relations)
        wanted = generator.randint(min(2, len(relations)), len(relations))
        for relation in relations[:wanted]:
            if count == facts:
                break
            near = members.get(relation.tail_type, ())
            choose_near = near and generator.random() < linked
            tail = _false_value(
                vocabulary, generator, entity, relation,
                near if choose_near else vocabulary.values[relation.tail_type],
            )  # fmt: skip
            if tail is not None:
                made.setdefault(entity, []).append(Fact(entity, relation, tail, f"fact-{count}"))
                count += 1
    order = list(made)
    generator.shuffle(order)
    return World(
        tuple(_page(entity, made[entity]) for entity in order),
        {entity: tuple(found) for entity, found in made.items()},
    )


def walks(world: World, hops: int) -> list[tuple[Fact, ...]]:
    """All walks of exactly `hops` facts that come to no entity twice."""
    paths: list[tuple[Fact, ...]] = [(fact,) for found in world.facts.values() for fact in found]
    for _ in range(hops - 1):
        paths = [
            (*path, fact)
            for path in paths
            for fact in world.facts.get(path[-1].tail, ())
            if fact.tail not in {path[0].head, *(step.tail for step in path)}
        ]
    return paths


def _false_value(
    vocabulary: Vocabulary,
    generator: random.Random,
    entity: str,
    relation: Relation,
    choices: Sequence[str],
) -> str | None:
    stated = vocabulary.stated.get((entity, relation.name), frozenset())
    for _ in range(4):
        value = generator.choice(choices)
        if value != entity and value not in stated:
            return value
    return None


def _page(entity: str, facts: Sequence[Fact]) -> Document:
    text = ""
    chunks = []
    for fact in facts:
        start = len(text) + bool(text)
        text += (" " if text else "") + fact.sentence()
        chunks.append(Chunk(fact.chunk_id, start, len(text)))
    return Document(entity, entity, text, tuple(chunks))
