"""Loading tokenizers and models from a folder, with the safe settings in one place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schemas.errors import UserError


def load_tokenizer(folder: Path | str) -> Any:
    """A Hugging Face tokenizer that pads on the left. Code in the folder is never run."""
    from transformers import AutoTokenizer

    must_exist(folder)
    tokenizer = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False)
    tokenizer.padding_side = "left"
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def end_tokens(tokenizer: Any, declared: int | Sequence[int] | None) -> frozenset[int]:
    """All tokens that end an answer.

    `declared` is what the model's generation_config names: a chat model often names several (the
    end of a turn and the end of a text), of which the tokenizer knows one.
    vLLM and TRL stop at each of them.
    """
    more = () if declared is None else [declared] if isinstance(declared, int) else declared
    return frozenset({tokenizer.eos_token_id, *more} - {None})


def load_causal_lm(folder: Path | str, device: str = "cpu", dtype: str = "auto") -> Any:
    """A causal language model from safetensors, in evaluation mode; `auto` is the saved dtype."""
    from transformers import AutoModelForCausalLM

    must_exist(folder)
    model = AutoModelForCausalLM.from_pretrained(
        str(folder), trust_remote_code=False, use_safetensors=True, dtype=dtype
    )
    return model.to(device).eval()


def saved_dtype(folder: Path | str) -> Any:
    """The torch dtype that a saved model says its weights have."""
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(str(folder), trust_remote_code=False).dtype


def must_exist(folder: Path | str) -> None:
    if (
        not (Path(folder) / "config.json").exists()
        and not (Path(folder) / "tokenizer_config.json").exists()
    ):
        raise UserError(f"no model or tokenizer at {folder}", fix="dvc repro")
