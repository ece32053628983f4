"""The content address of a request: equal for equal questions, whoever asks and wherever.

What is in it and what is not stands in docs/llm.md, and a test holds the table to this code. The
back end, the machine and the precision are not: an answer is a recorded draw from the model, and a
store that was filled on a GPU serves a run without one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from schemas.errors import UserError
from stages.llm.model import Model
from stages.llm.request import Request, Sampling

VERSION = 1
"""Of the address itself: raised when the same request gets another one."""

_OF_MODEL = {".json", ".safetensors", ".gguf", ".model", ".txt", ".jinja"}
"""Weights, configuration, tokenizer and chat template."""


def request_key(model: str, request: Request, sampling: Sampling | None) -> str:
    """128 bits of SHA-256, as hexadecimal digits. `model` is its id; scores have no sampling."""
    prompt = request.prompt
    asked: dict[str, object] = {
        "version": VERSION,
        "model": model,
        "prompt": prompt if isinstance(prompt, str) else [[m.role, m.content] for m in prompt],
    }
    if request.continuation is not None:
        asked["continuation"] = request.continuation
    elif sampling is None:
        raise ValueError("a request without a continuation needs sampling")
    else:
        # A parameter that is added later with a neutral default leaves the old addresses alone.
        asked["sampling"] = sampling.model_dump(mode="json", exclude_defaults=True)
        asked["seed"] = request.seed
        asked["schema"] = request.schema
    text = json.dumps(asked, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def model_id(model: Model, digest: Callable[[Path], str] = lambda path: file_digest(path)) -> str:
    """The id of a model. `digest` gives the SHA-256 of a file, perhaps from a cache."""
    adapter = "" if model.adapter is None else f"+{_folder_id(Path(model.adapter), digest)}"
    told = "" if model.thinking is None else f"?thinking={model.thinking}"
    if model.folder is not None:
        return f"folder:{_folder_id(Path(model.folder), digest)}{adapter}{told}"
    return f"name:{model.name}@{model.revision}{adapter}{told}"


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _folder_id(folder: Path, digest: Callable[[Path], str]) -> str:
    files = sorted(path for path in folder.glob("*") if path.suffix in _OF_MODEL and path.is_file())
    if not files:
        raise UserError(
            f"no model at {folder}",
            fix=f"dvc repro, where a stage makes {folder}; else correct the path in conf/",
        )
    whole = hashlib.sha256()
    for path in files:
        whole.update(f"{path.name}\0{digest(path)}\0".encode())
    return whole.hexdigest()[:32]
