"""What the calls of the layer took, for the run log: requests, tokens, seconds and cost."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from stages.llm.answer import Answer
from stages.runtime import usage
from stages.runtime.llm import Prices


@dataclass
class Counts:
    """What a call of the layer took."""

    requests: int = 0
    kept: int = 0
    asked: int = 0
    repaired: int = 0
    prompt: int = 0
    cached: int = 0
    unique: float = 0.0
    completion: int = 0
    seconds: float = 0.0
    statuses: Counter[str] = field(default_factory=Counter)

    def add(self, answer: Answer, new_share: float) -> None:
        """Count an answer that a model gave just now."""
        self.asked += 1
        self.prompt += answer.n_prompt_tokens
        self.cached += answer.n_cached_tokens or 0
        self.unique += answer.n_prompt_tokens * new_share
        self.completion += answer.n_tokens

    def cost(self, prices: Prices) -> float | None:
        """Nothing where nothing was asked; unknown where a price is."""
        if not self.asked:
            return 0.0
        if prices.prompt is None or prices.completion is None:
            return None
        cached = prices.prompt if prices.cached is None else prices.cached
        computed = self.prompt - self.cached
        spent = (
            computed * prices.prompt + self.cached * cached + self.completion * prices.completion
        )
        return spent / 1_000_000

    def record(self, prices: Prices) -> None:
        """To the run log, when the stage is done."""
        usage.add(prompt=self.prompt, completion=self.completion)
        usage.add_calls(
            {
                "requests": self.requests, "kept": self.kept, "asked": self.asked,
                "repaired": self.repaired, "prompt_tokens": self.prompt,
                "cached_tokens": self.cached, "computed_tokens": self.prompt - self.cached,
                "unique_tokens": round(self.unique), "completion_tokens": self.completion,
                "seconds": self.seconds,
            },
            dict(self.statuses), self.cost(prices),
        )  # fmt: skip
