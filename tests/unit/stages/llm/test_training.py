"""What the trainers are told."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from stages.llm.training import Optimisation, trainer_arguments
from tests.unit.stages.corpus.conftest import PARAMS

OPTIMISATION = Optimisation(
    steps=4, batch=2, learning_rate=1e-3, warmup_steps=0, schedule="linear", weight_decay=0.0
)


def test_a_seed_of_any_size_is_one_that_numpy_takes(tmp_path: Path) -> None:
    context: Any = SimpleNamespace(params=PARAMS, scratch=tmp_path)
    arguments = trainer_arguments(context, OPTIMISATION, (1 << 32) + 5)
    assert (arguments["seed"], arguments["data_seed"]) == (5, 5)
