"""An adapter trains little, and the model saved after it is whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from stages.llm.adapter import Full, Lora, merged, peft_config, trained_parameters
from stages.llm.memory import read_shape
from tests.unit.stages.llm.test_memory import small_llama

LORA = Lora(kind="lora", rank=4, alpha=8, dropout=0.0, targets="all-linear")


def test_trained_parameters_are_those_of_peft(tmp_path: Path) -> None:
    from peft import get_peft_model

    model = get_peft_model(small_llama(tmp_path), peft_config(LORA, "CAUSAL_LM"))
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert trained_parameters(LORA, read_shape(tmp_path)) == trained
    assert trained_parameters(Full(kind="full"), read_shape(tmp_path)) == read_shape(
        tmp_path
    ).parameters  # fmt: skip


def test_merged_is_a_plain_model_that_answers_alike(tmp_path: Path) -> None:
    import torch
    from peft import get_peft_model

    plain = small_llama(tmp_path)
    names = set(plain.state_dict())
    adapted = get_peft_model(plain, peft_config(LORA, "CAUSAL_LM")).eval()
    for name, weights in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weights, std=0.5)
    ids = torch.arange(10)[None]
    with torch.inference_mode():
        before = adapted(input_ids=ids).logits
        whole = merged(adapted)
        after = whole(input_ids=ids).logits
    assert set(whole.state_dict()) == names
    torch.testing.assert_close(before, after, atol=1e-4, rtol=1e-4)
    assert merged(whole) is whole


def test_full_has_no_adapter() -> None:
    assert peft_config(Full(kind="full"), "CAUSAL_LM") is None


@pytest.mark.parametrize("task", ["CAUSAL_LM", "SEQ_CLS"])
def test_only_a_classifier_trains_its_head(task: str) -> None:
    config = peft_config(LORA, task)  # type: ignore[arg-type]
    assert config.modules_to_save == (["score"] if task == "SEQ_CLS" else None)
    assert (config.r, config.lora_alpha) == (4, 8)
