"""Training steps with and without keeping freed memory (stages/runtime/seeds.py), in one run.

    python bench/kept_memory.py

Each side is its own process, since the setting cannot be taken back; they alternate.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time

STEPS = 20


def child(keep: bool) -> None:
    """Print seconds per step, system seconds and page faults of a small LFM2 under TRL's SFT."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import torch
    import transformers
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    from stages.corpus._tokenizer import WordLevelTokenizer, make_tokenizer
    from stages.runtime.seeds import _keep_freed_memory
    from stages.warmup.from_scratch import Architecture, build_model

    if keep:
        _keep_freed_memory()
    transformers.set_seed(0)
    torch.set_num_threads(2)
    words = [f"w{i}" for i in range(300)]
    tokenizer = make_tokenizer(
        WordLevelTokenizer(kind="word_level", max_words=400, markers=8, words=words), []
    )
    shape = Architecture(
        hidden=64, feed_forward=64, layers=("conv", "full_attention") * 2, heads=2, convolution=6,
        initial_std=0.1,
    )  # fmt: skip
    ids = torch.randint(5, 300, (64 * STEPS, 150)).tolist()
    rows = [{"input_ids": row, "completion_mask": [1] * len(row)} for row in ids]
    trainer = SFTTrainer(
        model=build_model(shape, tokenizer),
        args=SFTConfig(
            output_dir=tempfile.mkdtemp(), max_steps=STEPS, per_device_train_batch_size=64,
            use_cpu=True,
            bf16=False, gradient_checkpointing=False, report_to="none", save_strategy="no",
            disable_tqdm=True, max_length=None, logging_steps=1000,
        ),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
    )  # fmt: skip
    before, started = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    trainer.train()
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({
        "seconds_per_step": wall / STEPS,
        "system_seconds": after.ru_stime - before.ru_stime,
        "page_faults": after.ru_minflt - before.ru_minflt,
    }))  # fmt: skip


def main() -> None:
    results: dict[str, list[dict[str, float]]] = {"default": [], "kept": []}
    for _ in range(2):
        for side in results:
            out = subprocess.run(
                [sys.executable, __file__, side], check=True, capture_output=True, text=True
            ).stdout
            results[side].append(json.loads(out.strip().splitlines()[-1]))
    best = {
        side: {key: min(run[key] for run in runs) for key in runs[0]}
        for side, runs in results.items()
    }
    for key in best["default"]:
        ratio = best["default"][key] / max(best["kept"][key], 1e-9)
        print(f"{key:18}{best['default'][key]:14.3f}{best['kept'][key]:14.3f}{ratio:8.2f}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        child(sys.argv[1] == "kept")
    else:
        main()
