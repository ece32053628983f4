"""The tokenizer that will read the text: made from the corpus, or a copy of a pretrained one.

`word_level` has a closed vocabulary in a fixed order: special tokens, `<think>` and `</think>`,
the given words, the citation markers `[1]` ... `[markers]`, then the corpus's words by falling
frequency (ties by code point) up to `max_words`. An entity name with a hyphen and a marker such
as `[12]` are one token each; decoding joins tokens with spaces. The same corpus and settings
save the same bytes. The thinking tags are ordinary words: `skip_special_tokens` keeps them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, field_validator

from schemas.errors import UserError
from stages.llm.packaged import PREFIX, model_folder
from stages.runtime.variant import Settings

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

TOKEN = r"\[\d+\]|<[^>\s]+>|\w+(?:[-'’.]\w+)*|[^\w\s]"  # noqa: S105 (a pattern)
PAD, EOS, UNK = "<pad>", "<eos>", "<unk>"
THINK = ("<think>", "</think>")


class WordLevelTokenizer(Settings):
    """A vocabulary made from the corpus, for models that are trained here from nothing."""

    kind: Literal["word_level"]
    max_words: int = Field(ge=1, description="Most words to take from the corpus")
    markers: int = Field(ge=0, description="Citation markers [1] to [markers]")
    words: tuple[str, ...] = Field(description="Words that prompts and answers need")

    @field_validator("words")
    @classmethod
    def _one_token_each(cls, words: tuple[str, ...]) -> tuple[str, ...]:
        broken = [word for word in words if not re.fullmatch(TOKEN, word)]
        if broken:
            raise ValueError(f"each word must be one token, so split {broken}")
        return words


class PretrainedTokenizer(Settings):
    """The tokenizer of a published model: a local folder, a package that ships one
    (`package:NAME`), or a model id with its revision."""

    kind: Literal["pretrained"]
    path: str = Field(min_length=1)
    revision: str | None = None


TokenizerConfig = Annotated[WordLevelTokenizer | PretrainedTokenizer, Field(discriminator="kind")]


def make_tokenizer(
    config: WordLevelTokenizer | PretrainedTokenizer, texts: Iterable[str]
) -> PreTrainedTokenizerBase:
    """The tokenizer that `config` describes; `texts` is read only for a word-level one."""
    if isinstance(config, PretrainedTokenizer):
        return load_pretrained(config)
    return word_level(config, texts)


def word_level(config: WordLevelTokenizer, texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Build the closed vocabulary from the texts. Memory grows with the distinct words only."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    # `invert`: what does not match the pattern (white space) is what is removed.
    splitter = pre_tokenizers.Split(Regex(TOKEN), behavior="removed", invert=True)
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(piece for piece, _ in splitter.pre_tokenize_str(text))
    tokenizer = Tokenizer(models.WordLevel(vocabulary(config, counts), unk_token=UNK))
    tokenizer.pre_tokenizer = splitter
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=EOS,
        unk_token=UNK,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],
    )


def vocabulary(config: WordLevelTokenizer, counts: Counter[str]) -> dict[str, int]:
    """Token -> id, in the documented order; `counts` are the words of the corpus."""
    markers = (f"[{number}]" for number in range(1, config.markers + 1))
    known = dict.fromkeys((PAD, EOS, UNK, *THINK, *config.words, *markers))
    words = sorted(counts.keys() - known.keys(), key=lambda word: (-counts[word], word))
    return {token: index for index, token in enumerate([*known, *words[: config.max_words]])}


def load_pretrained(config: PretrainedTokenizer) -> PreTrainedTokenizerBase:
    """Load without running any code of the model's. `UserError` says what is not there."""
    from transformers import AutoTokenizer

    given = str(model_folder(config.path)) if config.path.startswith(PREFIX) else config.path
    path = Path(given)
    if not path.exists() and given.startswith((".", "/", "~")):
        raise _missing(config.path, "no such folder")
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            given, revision=config.revision, trust_remote_code=False
        )
    except (OSError, ValueError) as error:
        raise _missing(config.path, str(error).strip().splitlines()[0]) from error
    tokenizer.padding_side = "left"
    return tokenizer


def _missing(path: str, why: str) -> UserError:
    return UserError(
        f"corpus.tokenizer.path: no tokenizer at '{path}': {why}",
        fix="name a folder that holds tokenizer.json and tokenizer_config.json, or a model id on "
        "huggingface.co that this machine can reach",
    )
