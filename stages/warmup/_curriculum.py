"""The three lessons of a model made from nothing, as text segments with a loss mask.

1. lookups: a counterfactual world, then facts of it restated; trained on value and citation, so
   the model learns to find a fact by two keys (entity and relation) and to copy what follows.
2. worlds: a counterfactual world, then questions over it with their gold responses; trained on
   the responses.
3. demonstrations: the corpus's own training questions with their gold responses. A share `slips`
   of them goes wrong at one hop, as an imperfect teacher does: it reads value and citation off
   another sentence of the context, and answers with that.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from schemas.ids import seeded
from stages.llm.demonstration import demonstration
from stages.llm.library import Item
from stages.llm.prompts import Prompt, Template, cite, render_prompt
from stages.llm.wording import Wording
from stages.warmup._worlds import Fact, Vocabulary, make_world, walks

Segments = list[tuple[str, bool]]
"""Pieces of one sequence in order, each with whether it is trained on."""


def lookup_sequences(
    vocabulary: Vocabulary,
    count: int,
    facts: tuple[int, int],
    restated: int,
    markers: int,
    seed: int,
) -> Iterator[Segments]:
    """Worlds that grow from `facts[0]` to `facts[1]` facts over the run, then facts restated.

    Few entities come twice in a world, which makes the two keys easier to find.
    """
    for index in range(count):
        generator = random.Random(seeded(seed, "lookups", index))
        size = facts[0] + (facts[1] - facts[0]) * index // max(count - 1, 1)
        world = make_world(vocabulary, generator, size, linked=0.0)
        prompt = render_prompt(
            _BARE, "", world.documents, first_marker=_first_marker(generator, size, markers)
        )
        segments: Segments = [(prompt.text, False)]
        known = [fact for found in world.facts.values() for fact in found]
        for fact in generator.choices(known, k=restated):
            before, after = cite(fact.sentence(), prompt.markers[fact.chunk_id]).split(fact.tail, 1)
            segments += [(before, False), (fact.tail + after, True)]
        yield segments


def world_sequences(
    vocabulary: Vocabulary,
    template: Template,
    wording: Wording,
    count: int,
    facts: tuple[int, int],
    questions: int,
    hop_weights: Sequence[float],
    markers: int,
    end: str,
    seed: int,
) -> Iterator[Segments]:
    """Worlds of random size, each with `questions` questions and their gold responses."""
    lengths = range(1, len(hop_weights) + 1)
    for index in range(count):
        generator = random.Random(seeded(seed, "worlds", index))
        size = generator.randint(*facts)
        world = make_world(vocabulary, generator, size, linked=0.75)
        first = _first_marker(generator, size, markers)
        segments: Segments = []
        for _ in range(questions):
            found = walks(world, generator.choices(lengths, hop_weights)[0]) or walks(world, 1)
            path = generator.choice(found)
            question = _question(path, wording)
            prompt = render_prompt(
                template, question["question"], world.documents, first_marker=first
            )
            response = demonstration(question, prompt, _texts(path))
            # The context stands once; further questions follow the response before.
            text = prompt.text if not segments else _after_context(prompt, template, question)
            segments += [(text, False), (response, True), (end, True)]
        yield segments


def demonstration_sequences(
    items: Sequence[Item],
    texts: Mapping[str, Mapping[str, str]],
    count: int,
    slips: float,
    end: str,
    seed: int,
) -> Iterator[Segments]:
    """`count` demonstrations in a seeded order, passing over the items as often as needed.

    `texts` gives, for each question id, the text of every chunk in its prompt.
    """
    for index in range(count):
        generator = random.Random(seeded(seed, "demonstrations", index))
        if index % len(items) == 0:
            order = list(items)
            random.Random(seeded(seed, "order", index)).shuffle(order)
        item = order[index % len(items)]
        response = demonstration(item.question, item.prompt, item.gold_chunks)
        if generator.random() < slips:
            response = slipped(item, texts[item.question["question_id"]], generator)
        yield [(item.prompt.text, False), (response, True), (end, True)]


def slipped(item: Item, texts: Mapping[str, str], generator: random.Random) -> str:
    """A demonstration that goes wrong at one hop and stops there.

    Needs aligned hops, chunks and entities; a question without them is shown as it is.
    """
    question = item.question
    chunks, entities = question["gold_chunk_ids"], question["entities"]
    others = [chunk for chunk in item.prompt.markers if chunk not in chunks]
    if len(chunks) != len(entities) or not others:
        return demonstration(question, item.prompt, item.gold_chunks)
    hop = generator.randrange(len(chunks))
    other = generator.choice(others)
    value = texts[other].strip().rstrip(".").split()[-1]
    steps = [cite(texts[chunk].strip(), item.prompt.markers[chunk]) for chunk in chunks[:hop]]
    wrong = texts[chunks[hop]].strip().replace(entities[hop], value)
    steps.append(cite(wrong, item.prompt.markers[other]))
    return f"<think> {', '.join(question['relations'])} </think> {' '.join(steps)} Answer: {value}"


def _question(path: Sequence[Fact], wording: Wording) -> dict[str, Any]:
    relations = [fact.relation.name for fact in path]
    return {
        "question": wording.ask(path[0].head, relations),
        "relations": relations,
        "gold_chunk_ids": [fact.chunk_id for fact in path],
        "answer": path[-1].tail,
    }


def _texts(path: Sequence[Fact]) -> dict[str, str]:
    return {fact.chunk_id: fact.sentence() for fact in path}


def _after_context(prompt: Prompt, template: Template, question: Mapping[str, Any]) -> str:
    """What the template puts after the context."""
    return template.prompt.split("{context}", 1)[1].replace("{question}", question["question"])


def _first_marker(generator: random.Random, facts: int, markers: int) -> int:
    """Numbering starts anywhere, so that every marker is trained."""
    return generator.randint(1, max(1, markers - facts + 1))


_BARE = Template("bare", "{text}", "\n", "{context}\n", "")
