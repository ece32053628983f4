"""The memory that training was told to need (stages/llm/memory.py) beside what it takes.

    python bench/gpu/memory.py [--model FOLDER] [--lengths 1024 4096] [--device cuda]

Each case is a process of its own: one training step of a causal model, as the policy takes it, with
logits for a few hundred positions. On a GPU the peak is that of torch's allocator; on a CPU it is
the growth of the resident set, which also holds what the libraries load. Without `--model` a model
of random weights and Qwen3-0.6B's shape is made; `--layers` makes it smaller.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import resource
import tempfile
from pathlib import Path
from typing import Any

from stages.llm.adapter import Full, Lora, peft_config, trained_parameters
from stages.llm.memory import SPARE, Training, estimate, read_shape

LOGITS = 256
ADAPTERS: dict[str, Full | Lora] = {
    "full": Full(kind="full"),
    "lora": Lora(kind="lora", rank=16, alpha=32, dropout=0.0, targets="all-linear"),
}


def make_model(folder: Path, layers: int) -> None:
    """Qwen3-0.6B's shape with random weights."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=151936, hidden_size=1024, intermediate_size=3072, num_hidden_layers=layers,
        num_attention_heads=16, num_key_value_heads=8, head_dim=128, tie_word_embeddings=True,
        max_position_embeddings=40960,
    )  # fmt: skip
    Qwen3ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)


def one_step(folder: str, adapter: str, length: int, device: str, queue: Any) -> None:
    """Train one step and put the peak, in bytes, into the queue."""
    import torch
    from peft import get_peft_model
    from transformers import AutoModelForCausalLM

    on_gpu = device == "cuda"
    before = 0 if on_gpu else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    dtype = torch.float32 if adapter == "full" or not on_gpu else torch.bfloat16
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).to(device)
    config = peft_config(ADAPTERS[adapter], "CAUSAL_LM")
    if config is not None:
        model = get_peft_model(model, config)
        model.enable_input_require_grads()
    if on_gpu:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
    ids = torch.randint(0, model.config.vocab_size, (1, length), device=device)
    mask = torch.ones_like(ids)
    mask[0, -1] = 0  # padded, as batches are: unpadded ones need no mask
    with torch.autocast(device, torch.bfloat16, enabled=on_gpu):
        logits = model(input_ids=ids, attention_mask=mask, logits_to_keep=LOGITS).logits.float()
        loss = torch.nn.functional.cross_entropy(logits[0], ids[0, -LOGITS:])
    loss.backward()
    optimiser.step()
    if on_gpu:
        queue.put(torch.cuda.max_memory_allocated())
    else:
        queue.put(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before)


def measured(*case: Any) -> int:
    """The peak of one case, from a process of its own."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=one_step, args=(*case, queue))
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"{case[1:]} ended with {process.exitcode}")
    peak: int = queue.get()
    return peak


def main() -> None:
    parser = argparse.ArgumentParser(description="Memory told and memory taken")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--lengths", type=int, nargs="+", default=[1024, 8192, 32768])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.model or Path(temporary)
        if given.model is None:
            make_model(folder, given.layers)
        shape = read_shape(folder)
        print(f"{shape.parameters / 1e6:.0f} M parameters on {given.device}")
        print(f"{'':16}{'told, GiB':>12}{'taken, GiB':>12}{'ratio':>8}")
        for adapter, length in itertools.product(ADAPTERS, given.lengths):
            on_gpu = given.device == "cuda"
            trained = trained_parameters(ADAPTERS[adapter], shape)
            training = Training(length, 1, trained, 2 if on_gpu else 4, on_gpu, logits=LOGITS)
            told = sum(estimate(shape, training).values()) - SPARE
            taken = measured(str(folder), adapter, length, given.device)
            name = f"{adapter} {length}"
            print(f"{name:16}{told / 2**30:12.2f}{taken / 2**30:12.2f}{told / taken:8.2f}")


if __name__ == "__main__":
    main()
