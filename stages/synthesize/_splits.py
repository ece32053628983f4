"""Splits by document: no gold document of train is a gold document of validation or test.

Two ways, for the two ways in which questions come about:
- `split_regions` assigns documents first, for questions that are walked inside one split. Each
  held-out split is a region grown over linked documents, so that it keeps walks of several hops.
- `split_components` assigns questions that exist already: questions that share a gold document,
  directly or over others, stay together.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Hashable, Mapping, Sequence

from pydantic import Field, model_validator

from schemas.ids import seeded
from stages.runtime.variant import Settings


class SplitShares(Settings):
    """Share of documents (walks) or questions (imports) in each split; they sum to 1."""

    train: float = Field(gt=0, lt=1)
    validation: float = Field(gt=0, lt=1)
    test: float = Field(gt=0, lt=1)

    @model_validator(mode="after")
    def _sum(self) -> SplitShares:
        total = self.train + self.validation + self.test
        if abs(total - 1) > 1e-9:
            raise ValueError(f"the shares sum to {total}, not to 1")
        return self


def split_regions(
    links: Mapping[str, Sequence[str]], shares: SplitShares, seed: int
) -> dict[str, str]:
    """A split for each document of `links` (document -> linked documents, both directions).

    Test and validation are grown breadth-first from random documents until they hold their
    share; train gets the rest.
    """
    documents = sorted(links)
    generator = random.Random(seeded(seed, "regions"))
    generator.shuffle(documents)
    split: dict[str, str] = {}
    for name, share in (("test", shares.test), ("validation", shares.validation)):
        wanted = round(share * len(documents))
        taken = 0
        starts = (document for document in documents if document not in split)
        queue: deque[str] = deque()
        while taken < wanted:
            if not queue:
                queue.append(next(starts))
            document = queue.popleft()
            if document in split:
                continue
            split[document] = name
            taken += 1
            queue.extend(sorted(link for link in links[document] if link not in split))
    return {document: split.get(document, "train") for document in sorted(links)}


def split_components(
    gold: Mapping[str, Sequence[Hashable]], shares: SplitShares, seed: int
) -> dict[str, str]:
    """A split for each question of `gold` (question id -> its gold documents)."""
    parent: dict[Hashable, Hashable] = {}

    def root(node: Hashable) -> Hashable:
        parent.setdefault(node, node)
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for question, documents in gold.items():
        for document in documents:
            parent[root(("document", document))] = root(("question", question))
    components: dict[Hashable, list[str]] = {}
    for question in sorted(gold):
        components.setdefault(root(("question", question)), []).append(question)
    ordered = sorted(
        components.values(), key=lambda members: seeded(seed, "components", members[0])
    )
    split: dict[str, str] = {}
    wanted = {"test": shares.test * len(gold), "validation": shares.validation * len(gold)}
    filled = {"test": 0, "validation": 0}
    for members in ordered:
        name = next(
            (n for n in ("test", "validation") if filled[n] + len(members) <= round(wanted[n])),
            "train",
        )
        if name != "train":
            filled[name] += len(members)
        split.update(dict.fromkeys(members, name))
    return split
