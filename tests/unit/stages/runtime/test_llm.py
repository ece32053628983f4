"""`runtime.llm`: settings of all stages, and what is different for one."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from schemas.errors import UserError
from stages.runtime.llm import LlmSettings
from stages.runtime.params import parse_params
from tests.unit.stages.corpus.conftest import RUNTIME


def with_stages(**stages: Any) -> LlmSettings:
    return LlmSettings.model_validate(RUNTIME.llm.model_dump() | {"stages": stages})


def test_a_stage_changes_only_what_it_names() -> None:
    settings = with_stages(
        judge={"backend": "server", "server": {"url": "http://127.0.0.1:1/v1"}, "max_failed": 0.5}
    )
    judge, other = settings.of("judge"), settings.of("candidates")
    assert (judge.backend, judge.max_failed) == ("server", 0.5)
    assert judge.server.url == "http://127.0.0.1:1/v1"
    assert judge.server.model_dump(exclude={"url"}) == other.server.model_dump(exclude={"url"})
    assert other == with_stages().of("evaluate")


def test_arguments_of_a_server_are_replaced_as_a_whole() -> None:
    base = RUNTIME.llm.model_dump()
    base["server"]["serve"]["arguments"] = {"dtype": "float32"}
    base["stages"] = {"judge": {"server": {"serve": {"arguments": {"max-model-len": 4096}}}}}
    settings = LlmSettings.model_validate(base)
    assert settings.of("judge").server.serve.arguments == {"max-model-len": 4096}
    assert settings.of("evaluate").server.serve.arguments == {"dtype": "float32"}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"stages": {"jugde": {}}}, "no stage 'jugde'"),
        (
            {"stages": {"judge": {"server": {"ulr": "x"}}}},
            "unknown parameter 'runtime.llm.stages.judge.server.ulr'",
        ),
        ({"stages": {"judge": {"stages": {}}}}, "'runtime.llm.stages.judge.stages'"),
        ({"backend": "vlm"}, "parameter 'runtime.llm.backend'"),
        ({"max_failed": 1.5}, "parameter 'runtime.llm.max_failed'"),
    ],
)  # fmt: skip
def test_mistakes_are_named(composed: str, changes: dict[str, Any], told: str) -> None:
    raw = yaml.safe_load(composed)
    raw["runtime"]["llm"] |= changes
    with pytest.raises(UserError) as caught:
        parse_params(raw)
    assert told in str(caught.value)


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://a/v1", "http://user:word@host/v1"])
def test_addresses_that_are_none_or_hold_a_password(composed: str, url: str) -> None:
    raw = yaml.safe_load(composed)
    raw["runtime"]["llm"]["server"]["url"] = url
    with pytest.raises(UserError, match=r"runtime\.llm\.server\.url"):
        parse_params(raw)
