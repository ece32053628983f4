"""What a training run reads and what it takes for an end: as the other stages do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.params import compose_params
from stages.llm.library import Item
from stages.llm.prompts import Prompt
from stages.llm.tokenizer import load_causal_lm, load_tokenizer
from stages.policy._rollouts import Recorder, recording_trainer
from stages.policy.grpo import Config
from tests.conftest import ROOT
from tests.unit.stages.harness import question
from tests.unit.stages.library import context_row

PROMPT = "Rome is old ."


@pytest.fixture(scope="module")
def trainer(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A trainer, not run, whose model declares two ends and whose tokenizer adds a token itself."""
    from datasets import Dataset
    from tokenizers.processors import TemplateProcessing
    from trl import GRPOConfig

    model, tokenizer = load_causal_lm(tiny_model), load_tokenizer(tiny_model)
    end = tokenizer.eos_token
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{end} $A", special_tokens=[(end, tokenizer.eos_token_id)]
    )
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, other(tokenizer)]
    item = Item(question("q", ["doc"]), context_row(4, "long"), Prompt(PROMPT, {}, "hash"), {})
    config = Config(**compose_params(root=ROOT).raw["policy"])
    return recording_trainer()(
        model=model,
        args=GRPOConfig(
            output_dir=str(tmp_path_factory.mktemp("trainer")), use_cpu=True, report_to="none",
            num_generations=2, per_device_train_batch_size=2, bf16=False,
        ),
        train_dataset=Dataset.from_list([{"prompt": PROMPT, "question_id": "q"}]),
        processing_class=tokenizer,
        recorder=Recorder(config.reward, {"q": item}, {}, tokenizer),
    )  # fmt: skip


def other(tokenizer: Any) -> int:
    found: int = tokenizer.convert_tokens_to_ids("France")
    return found


def test_prompts_get_no_token_beside_their_own(trainer: Any) -> None:
    tokenizer = trainer.processing_class
    plain = tokenizer.encode(PROMPT, add_special_tokens=False)
    assert tokenizer.encode(PROMPT) == [tokenizer.eos_token_id, *plain]
    assert trainer._tokenize_prompts([PROMPT, "Rome"])[0] == [plain, plain[:1]]


@pytest.mark.parametrize("end", ["the tokenizer's", "the model's other one", None])
def test_an_answer_ends_at_any_end_of_the_model(trainer: Any, end: str | None) -> None:
    tokenizer = trainer.processing_class
    said = tokenizer.encode("Paris is old", add_special_tokens=False)
    last = {"the tokenizer's": [tokenizer.eos_token_id], None: []}.get(end, [other(tokenizer)])
    sample = trainer.recorder.sample("q", [*said, *last])
    assert sample.text == "Paris is old"
    assert sample.finish_reason == ("length" if end is None else "stop")
