"""Short-answer metrics: a predicted answer against one or more gold answers, in [0, 1].

Guarantees: matching is by equality of normal forms, never by containment, so that a prediction
of one letter or one article cannot score (methods.md section 6, defect 6); an empty prediction
scores 0; an empty gold is an error, never a free hit.

Token F1 as for SQuAD (arXiv 1606.05250, section 6.1): the bag overlap of tokens, the best over
the gold answers. Where a script has no spaces, and in Hangul, a token is a character.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from schemas.errors import UserError
from stages.metrics.text import fold, tokens

_ARTICLES = frozenset({"a", "an", "the"})


def normalise(text: str) -> str:
    """Folded text without English articles.

    An article goes only where another word follows, so that `A` (a choice), `The` and `Serie A`
    keep it: dropping a word never empties an answer.
    """
    words = fold(text).split()
    last = len(words) - 1
    return " ".join(w for i, w in enumerate(words) if i == last or w not in _ARTICLES)


def exact_match(prediction: str, golds: Sequence[str]) -> float:
    """1.0 if the normal form of `prediction` is that of one of `golds`, else 0.0.

    Raises ValueError without golds, or with a gold that has no letter, digit or symbol.
    """
    forms = _gold_forms(golds)
    return float(normalise(prediction) in forms)


def token_f1(prediction: str, golds: Sequence[str]) -> float:
    """The best token F1, in [0, 1], of `prediction` against one of `golds`.

    Raises ValueError as `exact_match` does.
    """
    forms = _gold_forms(golds)
    predicted = Counter(tokens(normalise(prediction)))
    return max(_overlap_f1(predicted, Counter(tokens(form))) for form in forms)


METRICS: dict[str, Callable[[str, Sequence[str]], float]] = {
    "exact_match": exact_match,
    "token_f1": token_f1,
}


def answer_score(metric: str, prediction: str, golds: Sequence[str]) -> float:
    """The score of `prediction` under the metric named `metric`.

    Raises UserError for an unknown metric, and ValueError as the metrics do.
    """
    if metric not in METRICS:
        raise UserError(
            f"unknown answer metric {metric!r}",
            allowed=METRICS,
            fix="set the question's metric to one of these",
        )
    return METRICS[metric](prediction, golds)


def _gold_forms(golds: Sequence[str]) -> list[str]:
    if isinstance(golds, str):
        raise ValueError("golds must be a sequence of answers, not one string")
    if not golds:
        raise ValueError("there is no gold answer")
    forms = [normalise(gold) for gold in golds]
    if not all(forms):
        raise ValueError(f"a gold answer is empty once normalised: {list(golds)!r}")
    return forms


def _overlap_f1(predicted: Counter[str], gold: Counter[str]) -> float:
    common = (predicted & gold).total()
    return 2.0 * common / (predicted.total() + gold.total())
