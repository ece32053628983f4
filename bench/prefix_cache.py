"""A document is read once: tokens computed beside tokens that are there, by the layer's order and
shuffled, in one run on one engine.

    python bench/prefix_cache.py [--documents 60] [--candidates 8] [--cache-gib 1] [--shuffled 480]

The prompts are those of the rubric judge: a document, a question, and one candidate's response with
a criterion. Unique tokens are those of a cache that never forgets: every distinct beginning counted
once. Only the order differs between the two sides; the engine starts each with an empty cache.
Shuffled takes several times as long: `--shuffled N` asks the first N requests only, and compares
the share of prompt tokens that had to be computed.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import engine

from stages.judge._prompt import load_prompt
from stages.judge._rubric import NEEDS
from stages.llm.answer import Answer
from stages.llm.prompts import fill
from stages.llm.request import Message, Request, Sampling

ANSWER = Sampling(temperature=0.0, top_p=1.0, max_new_tokens=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=60)
    parser.add_argument("--candidates", type=int, default=8)
    parser.add_argument("--shortest", type=int, default=1000)
    parser.add_argument("--longest", type=int, default=4000)
    parser.add_argument("--cache-gib", type=float, default=1.0)
    parser.add_argument("--shuffled", type=int, default=480)
    given = parser.parse_args()
    chosen = engine.settings(kv_cache_gib=given.cache_gib, max_model_len=8192, max_num_seqs=32)
    _, backend = engine.start(chosen)
    texts = engine.documents(
        given.documents, given.shortest, given.longest, backend.encoder.tokenizer, seed=0
    )
    requests = [
        Request(f"{d}/{n}", (Message("user", prompt),), group=str(d))
        for d, text in enumerate(texts)
        for n, prompt in enumerate(judge_prompts(text, given.candidates, seed=d))
    ]
    random.Random(1).shuffle(requests)
    unique = distinct_tokens([backend.encoder.prompt(request) for request in requests])
    held = int(given.cache_gib * 2**30) // (45 * 1024)
    print(f"{len(requests)} requests, {unique} unique tokens, cache of about {held} tokens")

    with tempfile.TemporaryDirectory() as store:
        model = engine.layer(chosen, backend, Path(store))
        started = time.monotonic()
        answers = list(model.ask(requests, ANSWER).values())
        say("the layer's order", answers, unique, time.monotonic() - started)
    backend.engine.reset_prefix_cache()
    started = time.monotonic()
    some = requests[: given.shuffled]
    answers = [answer for _, answer in backend.generate(some, ANSWER)]
    whole = unique if len(some) == len(requests) else None
    say(f"shuffled, {len(some)} of {len(requests)}", answers, whole, time.monotonic() - started)
    backend.close()


def judge_prompts(text: str, candidates: int, seed: int) -> list[str]:
    """What the judge `rubric_lm` asks about each candidate of one question."""
    prompt = load_prompt("rubric", NEEDS)
    draw = random.Random(seed)
    sentences = text.split(". ")
    question = "Which of these places lie near each other, and which do not?"
    head = fill(prompt.shared.prompt, context=text, question=question)
    return [
        head + fill(
            prompt.ask, response=". ".join(draw.sample(sentences, 4)),
            criterion="The response names only distances that the documents state.",
            lowest="1", highest="5", levels="",
        )
        for _ in range(candidates)
    ]  # fmt: skip


def distinct_tokens(rows: list[list[int]]) -> int:
    """Tokens that are left when every common beginning is counted once."""
    total = 0
    before: Sequence[int] = ()
    for row in sorted(rows):
        common = next(
            (i for i, (a, b) in enumerate(zip(before, row, strict=False)) if a != b),
            min(len(before), len(row)),
        )
        total += len(row) - common
        before = row
    return total


def say(side: str, answers: list[Answer], unique: int | None, seconds: float) -> None:
    prompt = sum(answer.n_prompt_tokens for answer in answers)
    computed = prompt - sum(answer.n_cached_tokens or 0 for answer in answers)
    ratio = "" if unique is None else f", computed/unique {computed / unique:.3f}"
    print(
        f"{side}: {prompt} prompt tokens, {computed} computed ({computed / prompt:.1%}){ratio}, "
        f"{seconds:.0f} s",
        flush=True,
    )


if __name__ == "__main__":
    main()
