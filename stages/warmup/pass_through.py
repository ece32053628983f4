"""No warm-up: a given model is taken as it is, from a local folder in safetensors or a package."""

from __future__ import annotations

from typing import Any, Literal

from schemas.errors import UserError
from stages.llm.packaged import model_folder
from stages.llm.tokenizer import load_causal_lm, load_tokenizer
from stages.llm.training import save
from stages.runtime.context import StageContext
from stages.runtime.variant import StageConfig


class Config(StageConfig):
    kind: Literal["pass_through"]
    model: str


def run(config: Config, context: StageContext) -> dict[str, Any]:
    folder = model_folder(config.model)
    if not (folder / "config.json").exists():
        raise UserError(
            f"warmup.model: no model at '{config.model}'",
            fix="dvc exp run -S warmup=pass_through -S warmup.model=/path/to/model (a folder with "
            "config.json, *.safetensors and a tokenizer, or package:NAME)",
        )
    model = load_causal_lm(folder)
    tokenizer = load_tokenizer(folder)
    save(model, tokenizer, context.model_folder("warmup"))
    parameters = sum(weights.numel() for weights in model.parameters())
    context.plot("warmup", [{"step": 0, "phase": "pass_through", "loss": None}])
    return {"parameters": parameters}
