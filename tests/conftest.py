"""What tests of several packages share: a project folder, and a model that is made in a second."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from pipelines.params import compose_text
from stages.corpus._tokenizer import WordLevelTokenizer, make_tokenizer
from tests.repository import copy_of_finished, finished

__all__ = ["composed", "copy_of_finished", "finished", "tiny_model", "workspace"]

ROOT = Path(__file__).parents[1]
WORDS = ("Question", "Answer", "What", "is", "the", "of", "The", "?", ":", ",", ".")

# A shell lets what it starts in the background ignore Ctrl-C, and so would all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Stages that wait for a core should not spin on it: several tests run at once.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """More than there are cores: half of the time a test waits for what it has started."""
    return min(8, (os.cpu_count() or 1) * 3 // 2)


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the marks in its own
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several workers: a file's tests go to one of them, for its fixtures, and those that need
    the finished repository too, since making it takes minutes."""
    for item in items:
        shared = "finished" in getattr(item, "fixturenames", ())
        item.add_marker(pytest.mark.xdist_group("finished" if shared else str(item.path)))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Were the groups lost, each worker would make each fixture, and only the clock would tell."""
    if getattr(session.config.option, "loadgroup", False):
        apart = [item.nodeid for item in session.items if "@" not in item.nodeid]
        if apart:
            raise pytest.UsageError(f"pytest-xdist has not read the group of {apart[0]}")


@pytest.fixture(scope="session")
def composed() -> str:
    """What this project's conf/ composes to."""
    return compose_text(root=ROOT)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, composed: str) -> Path:
    """The current folder: a project with conf/ and a params.yaml that agrees with it."""
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    shutil.copytree(ROOT / "pipelines" / "hydra", tmp_path / "pipelines" / "hydra")
    (tmp_path / "params.yaml").write_text(composed, encoding="utf-8")
    (tmp_path / "inputs").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a word-level tokenizer and an LFM2 model of random weights."""
    folder = tmp_path_factory.mktemp("tiny_model")
    with chdir(folder):
        config = WordLevelTokenizer(kind="word_level", max_words=100, markers=16, words=WORDS)
        tokenizer = make_tokenizer(config, ["Paris is in France . Rome is in Italy and old ."])
        model = random_lfm2(tokenizer, window=256)
        model.save_pretrained(folder, safe_serialization=True)
        tokenizer.save_pretrained(folder)
    return folder


def random_lfm2(tokenizer: Any, window: int) -> Any:
    """The smallest LFM2, always with the same random weights."""
    import torch
    from transformers import Lfm2Config, Lfm2ForCausalLM

    torch.manual_seed(0)
    return Lfm2ForCausalLM(
        Lfm2Config(
            vocab_size=len(tokenizer),
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=2,
            layer_types=["conv", "full_attention"],
            num_attention_heads=2,
            num_key_value_heads=2,
            max_position_embeddings=window,
            block_auto_adjust_ff_dim=False,
            initializer_range=0.4,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=tokenizer.eos_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
    )
