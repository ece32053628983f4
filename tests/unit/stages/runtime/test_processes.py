"""A process trains on one GPU: the first it sees, or the one that the launcher gave it."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.params import compose_params
from stages.runtime import processes
from stages.runtime.seeds import deterministic
from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("before", "after"),
    [(None, "0"), ("2,3", "2"), ("3", "3"), ("", ""), ("GPU-a1,GPU-b2", "GPU-a1")],
)
def test_one_process_sees_one_gpu(
    before: str | None, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", before or "")
    if before is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    processes.one_gpu("policy")
    assert processes.os.environ["CUDA_VISIBLE_DEVICES"] == after


@pytest.mark.parametrize(("stage", "launched"), [("judge", "0"), ("policy", "1")])
def test_other_stages_and_launched_processes_see_all(
    stage: str, launched: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    monkeypatch.setenv("LONGLINE_ACCELERATED", launched)
    processes.one_gpu(stage)
    assert processes.os.environ["CUDA_VISIBLE_DEVICES"] == "2,3"


@pytest.mark.parametrize(
    ("launched", "device", "taken"), [("1", "cuda", [3]), ("1", "cpu", []), ("0", "cuda", [])]
)
def test_a_launched_process_takes_its_own_gpu(
    launched: str, device: str, taken: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Any] = []
    monkeypatch.setattr("torch.cuda.set_device", found.append)
    monkeypatch.setenv("LONGLINE_ACCELERATED", launched)
    monkeypatch.setenv("LOCAL_RANK", "3")
    runtime = compose_params(root=ROOT).runtime.model_copy(update={"device": device})
    deterministic(1, runtime)
    assert found == taken
