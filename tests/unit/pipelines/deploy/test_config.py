"""conf/deploy: every mistake is told with the key, and no value can be read as code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from pipelines.deploy.config import Kubernetes, Slurm, load
from schemas.errors import UserError
from tests.unit.pipelines.deploy.conftest import CONF, kubernetes, shipped, slurm

HOSTILE = [
    "a\nb", "a\rb", "a\x85b", "a\u2028b", "a\x00b", "", " ", "-x", "a b", "$(id)", "`id`", "a;b",
    "a'b", 'a"b', "a{{ b }}", "a\\b", "a#b", "a|b", "a>b", "café",
]  # fmt: skip
TAKEN = {("constraint", "a|b"), ("key", "-x")}  # as Slurm and Kubernetes do
# Free text may hold all of these but control characters; it is quoted where it is written.
FREE = {"repository", "workspaces", "cache", "venv"}


@pytest.mark.parametrize(("name", "model"), [("kubernetes", Kubernetes), ("slurm", Slurm)])
def test_the_shipped_files_hold_every_key_and_no_other(
    name: str, model: type[Kubernetes | Slurm]
) -> None:
    loaded = load(CONF / f"{name}.yaml", model)
    assert set(shipped(name)) == set(model.model_fields)
    with pytest.raises(ValidationError):
        loaded.gpus = 3  # type: ignore[misc]


def test_an_unknown_key_names_the_allowed_ones(config_file: Path) -> None:
    values = shipped("slurm")
    values["partion"] = values.pop("partition")
    config_file.write_text(yaml.safe_dump(values))
    with pytest.raises(UserError, match=r"unknown parameter 'mine\.partion'") as caught:
        load(config_file, Slurm)
    assert "partition" in (caught.value.allowed or [])
    assert caught.value.fix == f"correct {config_file}"


def test_an_unknown_key_in_a_list(config_file: Path) -> None:
    secrets = [{"variable": "A", "secret": "s", "key": "k", "value": "hunter2"}]
    config_file.write_text(yaml.safe_dump({**shipped("kubernetes"), "secrets": secrets}))
    with pytest.raises(UserError, match=r"mine\.secrets\.0\.value") as caught:
        load(config_file, Kubernetes)
    assert caught.value.allowed == ["key", "secret", "variable"]


@pytest.mark.parametrize(
    ("text", "told"),
    [(None, "no file"), ("a: [", "is not YAML"), ("- a", "valid dict"), ("", "valid dict")],
)
def test_a_broken_file(config_file: Path, text: str | None, told: str) -> None:
    if text is not None:
        config_file.write_text(text)
    with pytest.raises(UserError, match=told):
        load(config_file, Slurm)


def test_a_time_without_quotes_is_told(config_file: Path) -> None:
    """YAML 1.1 reads 24:00:00 as the number 86400."""
    text = (CONF / "slurm.yaml").read_text(encoding="utf-8").replace('"24:00:00"', "24:00:00")
    config_file.write_text(text)
    with pytest.raises(UserError, match=r"mine\.time'.*string.*86400"):
        load(config_file, Slurm)


@pytest.mark.parametrize("value", HOSTILE)
def test_text_is_held_to_what_its_reader_takes(value: str) -> None:
    for key, given in shipped("slurm").items():
        if key in ("modules", "environment"):
            _refused(slurm, key, [value])
        elif key in FREE:
            if not value.isprintable():
                _refused(slurm, key, value)
        elif (isinstance(given, str) or given is None) and (key, value) not in TAKEN:
            _refused(slurm, key, value)
    for key, given in shipped("kubernetes").items():
        if isinstance(given, str) or key in ("revision", "service_account"):
            _refused(kubernetes, key, value)
    for key in ("variable", "secret", "key"):
        named = {"variable": "HF_TOKEN", "secret": "longline", "key": "token", key: value}
        if (key, value) not in TAKEN:
            _refused(kubernetes, "secrets", [named])
    _refused(kubernetes, "environment", {value: "x"})
    _refused(kubernetes, "node_selector", {value: "x"})
    if value:
        _refused(kubernetes, "node_selector", {"pool": value})
    if not value.isprintable() or "{{" in value:
        _refused(kubernetes, "environment", {"NAME": value})


def _refused(model: Any, key: str, value: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        model(**{key: value})
    assert caught.value.errors()[0]["loc"][0] == key


@pytest.mark.parametrize("name", ["HF_TOKEN", "OPENAI_API_KEY", "db_password", "X_AUTH"])
def test_a_secret_has_no_value_in_the_file_and_the_error_does_not_show_it(
    config_file: Path, name: str
) -> None:
    values = {**shipped("kubernetes"), "environment": {name: "hunter2"}}
    config_file.write_text(yaml.safe_dump(values))
    with pytest.raises(UserError, match=rf"mine\.environment\.{name}'.*see `secrets`") as caught:
        load(config_file, Kubernetes)
    assert "hunter2" not in str(caught.value)


def test_a_variable_is_set_once() -> None:
    secret = {"variable": "WHERE", "secret": "longline", "key": "where"}
    with pytest.raises(ValidationError, match="'WHERE' is set twice"):
        kubernetes(secrets=[secret, secret])
    with pytest.raises(ValidationError, match="'WHERE' is set twice"):
        kubernetes(secrets=[secret], environment={"WHERE": "x"})


@pytest.mark.parametrize(
    "address",
    ["https://example.org/a/b.git", "ssh://git@example.org:22/a.git", "git@example.org:a/b.git",
     "/opt/longline"],
)  # fmt: skip
def test_repositories(address: str) -> None:
    assert kubernetes(repository=address).repository == address


@pytest.mark.parametrize(
    "address",
    ["https://user:hunter2@example.org/a.git", "https://hunter2:x@example.org/a", "ext::sh -c id",
     "file:///etc", "--upload-pack=x", "relative"],
)  # fmt: skip
def test_repositories_that_are_refused(address: str) -> None:
    with pytest.raises(ValidationError):
        kubernetes(repository=address)


@pytest.mark.parametrize("value", [True, "1", 1.0, -1])
def test_counts_are_whole_numbers(value: Any) -> None:
    for model in (slurm, kubernetes):
        with pytest.raises(ValidationError):
            model(gpus=value)


def test_nobody_is_root() -> None:
    with pytest.raises(ValidationError):
        kubernetes(user=0)
