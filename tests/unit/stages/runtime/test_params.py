"""params.yaml as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas.errors import UserError
from stages.runtime.digest import NOT_PARAMETERS, conf_digest, parameter_files
from stages.runtime.layout import STAGES
from stages.runtime.params import COMPOSE, load_params, parse_params


@pytest.fixture
def raw(composed: str) -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load(composed)
    return values


def refused(raw: Any) -> UserError:
    with pytest.raises(UserError) as caught:
        parse_params(raw)
    return caught.value


def test_the_composed_default(raw: dict[str, Any]) -> None:
    params = parse_params(raw)
    assert set(params.stages) == set(STAGES)
    assert (params.profile, params.recipe) == (raw["profile"], raw["recipe"])


def test_an_unknown_top_key(raw: dict[str, Any]) -> None:
    error = refused(raw | {"distractor": {}})
    assert error.message == "unknown parameter 'distractor'"
    assert "distractors" in (error.allowed or [])
    assert error.fix == COMPOSE


@pytest.mark.parametrize("key", ["judge", "seed", "conf_digest", "size"])
def test_a_missing_top_key(raw: dict[str, Any], key: str) -> None:
    del raw[key]
    error = refused(raw)
    assert error.message == f"params.yaml lacks '{key}'"
    assert error.fix == COMPOSE


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [("seed", "data", -1), ("runtime", "threads", 0), ("runtime", "device", "tpu")],
)
def test_seeds_and_runtime_are_checked(
    raw: dict[str, Any], section: str, key: str, value: object
) -> None:
    raw[section][key] = value
    error = refused(raw)
    assert error.message.startswith(f"parameter '{section}.{key}': ")
    assert error.message.endswith(f"(given: {value!r})")


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "not a mapping"), ("- a", "not a mapping"), ("a: [", "is not YAML"), (None, "no params")],
)
def test_a_broken_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / "params.yaml").write_text(text)
    with pytest.raises(UserError, match=message) as caught:
        load_params()
    assert caught.value.fix == COMPOSE


def test_the_digest_follows_names_and_bytes_of_conf(workspace: Path) -> None:
    first = conf_digest(workspace / "conf")
    seen = {first}
    files = list(parameter_files(workspace / "conf"))
    for path in files:
        text = path.read_bytes()
        path.write_bytes(text + b"\n")
        seen.add(conf_digest(workspace / "conf"))
        path.write_bytes(text)
    assert len(seen) == 1 + len(files)
    assert conf_digest(workspace / "conf") == first
    (workspace / "conf/judge/panel.yaml").rename(workspace / "conf/judge/other.yaml")
    assert conf_digest(workspace / "conf") not in seen
    (workspace / "conf/judge/other.yaml").rename(workspace / "conf/judge/panel.yaml")
    (workspace / "conf/judge/panel.yaml~").write_text("an editor's copy")
    assert conf_digest(workspace / "conf") == first


def test_grids_and_deployments_are_not_in_the_digest(workspace: Path) -> None:
    """Where a run goes, and what is compared with what, changes no stage's parameters."""
    conf = workspace / "conf"
    first = conf_digest(conf)
    assert set(map(str, parameter_files(conf))) == {
        str(path) for path in conf.rglob("*.yaml")
        if path.relative_to(conf).parts[0] not in ("ablation", "deploy")
    }  # fmt: skip
    for folder in NOT_PARAMETERS:
        (conf / folder / "deeper").mkdir(parents=True, exist_ok=True)
        for name in ("mine.yaml", "deeper/mine.yaml"):
            (conf / folder / name).write_text("anything: 1\n")
    assert conf_digest(conf) == first
    (conf / "policy" / "deploy").mkdir()  # only the top folder of that name is left out
    (conf / "policy" / "deploy" / "one.yaml").write_text("anything: 1\n")
    assert conf_digest(conf) != first


@pytest.mark.parametrize(
    ("llm", "rollouts", "name"),
    [
        ({"backend": "vllm", "vllm": {"tensor_parallel": 2}}, {}, "llm.vllm"),
        ({"backend": "vllm", "vllm": {"data_parallel": 2}}, {}, "llm.vllm"),
        ({"backend": "server", "vllm": {"tensor_parallel": 2}}, {}, "llm.vllm"),
        ({"stages": {"judge": {"backend": "vllm", "vllm": {"tensor_parallel": 2}}}}, {},
         "llm.stages.judge.vllm"),
        ({}, {"engine": "vllm_colocate", "tensor_parallel": 2}, "rollouts.tensor_parallel"),
    ],
)  # fmt: skip
def test_gpus_for_what_spreads_over_several(
    raw: dict[str, Any], llm: dict[str, Any], rollouts: dict[str, Any], name: str
) -> None:
    runtime = raw["runtime"]
    vllm = runtime["llm"]["vllm"] | llm.get("vllm", {})
    runtime["llm"] |= llm | {"vllm": vllm}
    runtime["rollouts"] |= rollouts
    for enough in (0, 2, 3):
        runtime["gpus"] = enough
        parse_params(raw)
    runtime["gpus"] = 1
    assert f"{name}" in str(refused(raw)) and "takes 2" in str(refused(raw))


def test_gpus_do_not_matter_where_vllm_does_not_run(raw: dict[str, Any]) -> None:
    runtime = raw["runtime"]
    runtime["gpus"] = 1
    runtime["llm"]["vllm"]["tensor_parallel"] = 2
    runtime["rollouts"]["tensor_parallel"] = 2
    parse_params(raw)
