"""Running a corpus variant in a temporary folder, through a real context."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas.duck import connect, quoted
from schemas.read import Dataset
from stages.runtime.context import StageContext
from stages.runtime.params import Params, Runtime, Seeds
from stages.runtime.variant import load_variant, validate
from tests.conftest import ROOT

WORDS = ["Question", "Answer", "What", "is", "the", "of", "The", "?", ":", ",", "."]
COMMON: dict[str, Any] = {
    "path": "inputs",
    "tokenizer": {"kind": "word_level", "max_words": 50_000, "markers": 16, "words": WORDS},
    "chunk": {"max_tokens": 64, "max_sentences": None},
}
RUNTIME = Runtime(
    **yaml.safe_load((ROOT / "conf" / "runtime" / "local.yaml").read_text(encoding="utf-8"))
    | {"threads": 1, "generation_batch": 1, "device": "cpu"}
)
PARAMS = Params("0", "test", "test", Seeds(data=0, train=0), RUNTIME, {}, {})


@dataclass(frozen=True)
class Ran:
    """A published corpus stage."""

    folder: Path
    metrics: dict[str, Any]

    def rows(self, dataset: str) -> list[dict[str, Any]]:
        return list(Dataset.open(self.folder / "data" / dataset).rows())

    def quarantine(self, dataset: str) -> list[tuple[Any, ...]]:
        """(rule, source, content), sorted by source."""
        file = self.folder / "data" / dataset / "_quarantine" / "part-00000.parquet"
        with connect() as connection:
            return connection.execute(
                f"SELECT rule, source, content FROM read_parquet({quoted(file)}) ORDER BY source"
            ).fetchall()

    def accounting(self, dataset: str) -> dict[str, Any]:
        meta = Dataset.open(self.folder / "data" / dataset).meta
        accounting: dict[str, Any] = meta["accounting"]
        return accounting

    def files(self) -> dict[str, bytes]:
        """Every published file with its bytes."""
        return {
            str(path.relative_to(self.folder)): path.read_bytes()
            for name in ("data", "models")
            for path in sorted((self.folder / name).rglob("*"))
            if path.is_file()
        }


RunCorpus = Callable[..., Ran]


@pytest.fixture
def run_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunCorpus:
    """`run_corpus("files", key=value, ...)` runs the variant in `tmp_path` (or in `folder`)."""

    def run(kind: str, folder: Path = tmp_path, **values: Any) -> Ran:
        monkeypatch.chdir(folder)
        config = validate("corpus", {"kind": kind, **COMMON, **values})
        context = StageContext.create("corpus", PARAMS)
        try:
            metrics = load_variant("corpus", kind).run(config, context)
            context.publish(metrics)
        finally:
            context.close()
        return Ran(folder, metrics)

    return run


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    folder = tmp_path / "inputs"
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def multihop() -> Path:
    """The real benchmark files, where they are; they are not part of the project."""
    roots = [Path(os.environ["LONGLINE_SHARED"])] if "LONGLINE_SHARED" in os.environ else []
    roots += [parent / "shared" for parent in Path(__file__).parents]
    for root in roots:
        if (root / "data" / "multihop_qa").is_dir():
            return root / "data" / "multihop_qa"
    pytest.skip("shared/data/multihop_qa is not here (LONGLINE_SHARED)")
