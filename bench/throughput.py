"""Answers a second through the layer beside a bare `vllm.LLM.chat` loop on the same prompts.

    python bench/throughput.py [--prompts 48] [--new-tokens 32] [--rounds 6]

One engine serves both sides in turn, each time with an empty prefix cache; the layer also starts
with an empty store, and writes every answer to it. The loop hands `chat` all prompts at once, which
is the fastest way to use it. Opening the layer, which reads the model's files once for a digest, is
like starting the engine: before the clock. The ratio is taken within each round, whose two sides
run one after the other; with the extremes beside the median, a slower layer and an uneven machine
can be told apart.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import engine

from stages.llm.layer import LanguageModel
from stages.llm.request import Message, Request, Sampling


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=48)
    parser.add_argument("--new-tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=6)
    given = parser.parse_args()
    chosen = engine.settings(kv_cache_gib=1.0, max_model_len=2048, max_num_seqs=16)
    bare, backend = engine.start(chosen)
    texts = engine.documents(given.prompts, 100, 400, backend.encoder.tokenizer, seed=0)
    asked = [f"{text}\n\nWhich of these places lie near each other?" for text in texts]
    sides = {"vllm.LLM.chat": [], "layer": []}  # type: dict[str, list[float]]
    for number in range(given.rounds + 1):
        for side in sides if number % 2 else reversed(sides):
            backend.engine.reset_prefix_cache()
            with tempfile.TemporaryDirectory() as store:
                model = engine.layer(chosen, backend, Path(store))
                started = time.monotonic()
                if side == "layer":
                    tokens = by_layer(model, asked, given.new_tokens)
                else:
                    tokens = by_chat(bare, asked, given.new_tokens)
                rate = tokens / (time.monotonic() - started)
                model.store.close()
            print(f"{side}: {tokens} new tokens, {rate:.1f} a second", flush=True)
            if number:  # the first round warms up
                sides[side].append(rate)
    ratios = [layer / chat for chat, layer in zip(*sides.values(), strict=True)]
    print(
        f"layer / vllm.LLM.chat: {statistics.median(ratios):.3f}, median of {given.rounds} rounds "
        f"({min(ratios):.3f} to {max(ratios):.3f})"
    )
    backend.close()


def by_chat(bare: Any, asked: list[str], new_tokens: int) -> int:
    from vllm import SamplingParams

    outputs = bare.chat(
        [[{"role": "user", "content": text}] for text in asked],
        SamplingParams(temperature=0.0, max_tokens=new_tokens),
        use_tqdm=False,
    )
    return sum(len(output.outputs[0].token_ids) for output in outputs)


def by_layer(model: LanguageModel, asked: list[str], new_tokens: int) -> int:
    requests = [Request(str(n), (Message("user", text),)) for n, text in enumerate(asked)]
    sampling = Sampling(temperature=0.0, top_p=1.0, max_new_tokens=new_tokens)
    answers = model.ask(requests, sampling)
    # An answer that ended by itself has one more token, its end, which `chat` counts too.
    return sum(answer.n_tokens + (answer.status == "ok") for answer in answers.values())


if __name__ == "__main__":
    main()
