"""The content address, held to the table in docs/llm.md."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from schemas.errors import UserError
from stages.llm.identity import model_id, request_key
from stages.llm.model import Model
from stages.llm.request import Message, Request, Sampling
from stages.runtime.llm import LlmSettings
from stages.runtime.params import Runtime
from tests.conftest import ROOT

SAMPLING = Sampling(temperature=1.0, top_p=0.9, max_new_tokens=8)
REQUEST = Request("id", "prompt", seed=1, schema='{"type": "object"}', group="document")
SCORE = Request("id", "prompt", seed=1, continuation="yes", group="document")
OTHER: dict[str, Any] = {
    "id": "another", "prompt": "another", "seed": 2, "schema": None, "group": "another",
    "temperature": 0.5, "top_p": 0.5, "max_new_tokens": 9,
}  # fmt: skip


def table() -> dict[str, bool]:
    """Field -> whether it is in the address, as docs/llm.md says."""
    text = (ROOT / "docs" / "llm.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+(?:\.\w+)+)` \| (yes|no) \|", text, re.MULTILINE)
    assert len(dict(rows)) == len(rows)
    return {name: word == "yes" for name, word in rows}


def test_the_table_is_about_every_field() -> None:
    fields = {f"request.{field.name}" for field in dataclasses.fields(Request)}
    fields |= {f"sampling.{name}" for name in Sampling.model_fields}
    fields |= {f"model.{name}" for name in Model.model_fields}
    fields |= {f"runtime.{name}" for name in Runtime.model_fields if name != "llm"}
    fields |= {f"runtime.llm.{name}" for name in LlmSettings.model_fields}
    assert set(table()) == fields


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Request)])
def test_a_request_field_counts_as_the_table_says(field: str) -> None:
    if field == "continuation":
        changed, sampling, whole = dataclasses.replace(SCORE, continuation="no"), None, SCORE
    else:
        changed, sampling, whole = (
            dataclasses.replace(REQUEST, **{field: OTHER[field]}), SAMPLING, REQUEST
        )  # fmt: skip
    differs = request_key("m", changed, sampling) != request_key("m", whole, sampling)
    assert differs == table()[f"request.{field}"]


@pytest.mark.parametrize("field", Sampling.model_fields)
def test_a_sampling_field_counts_as_the_table_says(field: str) -> None:
    changed = SAMPLING.model_copy(update={field: OTHER[field]})
    assert table()[f"sampling.{field}"]
    assert request_key("m", REQUEST, changed) != request_key("m", REQUEST, SAMPLING)
    # Nothing of it counts for a score.
    assert request_key("m", SCORE, changed) == request_key("m", SCORE, None)


def test_the_model_counts_and_the_machine_does_not() -> None:
    assert request_key("a", REQUEST, SAMPLING) != request_key("b", REQUEST, SAMPLING)
    assert not any(said for name, said in table().items() if name.startswith("runtime."))
    assert all(said for name, said in table().items() if name.startswith("model."))


def test_scores_have_neither_seed_nor_schema() -> None:
    for field in ("seed", "schema"):
        changed = dataclasses.replace(SCORE, **{field: OTHER[field]})
        assert request_key("m", changed, None) == request_key("m", SCORE, None)


TEXTS = st.text(st.characters(), max_size=5)
PROMPTS = TEXTS | st.lists(
    st.builds(Message, st.sampled_from(["user", "assistant"]), TEXTS), max_size=3
).map(tuple)
REQUESTS = st.builds(
    Request, id=st.just("id"), prompt=PROMPTS, seed=st.integers(0, 3),
    schema=st.none() | st.just("{}"), continuation=st.none() | TEXTS,
)  # fmt: skip


@given(REQUESTS, REQUESTS)
def test_equal_addresses_are_of_equal_requests(one: Request, two: Request) -> None:
    def asked(request: Request) -> tuple[object, ...]:
        if request.continuation is None:
            return request.prompt, request.seed, request.schema
        return request.prompt, request.continuation

    equal = asked(one) == asked(two)
    assert (request_key("m", one, SAMPLING) == request_key("m", two, SAMPLING)) == equal


def test_an_address_never_changes() -> None:
    """What is in a store must be found by later versions: a change needs a new VERSION."""
    assert request_key("m", REQUEST, SAMPLING) == "2924d5ee4d935de3dee40fe9e2a22a5f"


def test_a_folder_is_known_by_its_content(tmp_path: Path) -> None:
    def model(name: str, **files: bytes) -> str:
        (tmp_path / name).mkdir()
        for file, content in files.items():
            (tmp_path / name / file.replace("_", ".")).write_bytes(content)
        return model_id(Model(folder=str(tmp_path / name)))

    first = model("a", config_json=b"{}", model_safetensors=b"weights")
    assert model("b", config_json=b"{}", model_safetensors=b"weights", README_md=b"x") == first
    assert model("c", config_json=b"{}", model_safetensors=b"others") != first
    assert model("d", config_json=b"{}", model_safetensors=b"weights", chat_jinja=b"x") != first
    adapted = Model(folder=str(tmp_path / "a"), adapter=str(tmp_path / "c"))
    assert model_id(adapted) != first
    with pytest.raises(UserError, match="no model at"):
        model_id(Model(folder=str(tmp_path / "nothing")))


def test_a_name_is_known_by_itself_and_its_revision() -> None:
    names = {model_id(Model(name=name, revision=r)) for name in "ab" for r in ("", "1")}
    assert len(names) == 4


def test_what_the_chat_template_is_told_counts() -> None:
    assert len({model_id(Model(name="a", thinking=told)) for told in (None, False, True)}) == 3


@pytest.mark.parametrize(
    "values", [{}, {"folder": "a", "name": "b"}, {"folder": "a", "revision": "1"}]
)
def test_a_model_is_a_folder_or_a_name(values: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        Model(**values)
