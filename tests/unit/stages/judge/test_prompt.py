"""Templates of judges: the documents first, and no placeholder that nothing fills."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas.errors import UserError
from stages.judge import _pairwise, _rubric, _yes_no
from stages.judge._prompt import PROMPTS, load_prompt

GOOD = {"document": "'{text}'", "joiner": "''", "shared": "'{context} {question}'",
        "ask": "'{response}: {check}'"}  # fmt: skip
NEEDS = frozenset({"response", "check"})


def written(folder: Path, **keys: str) -> str:
    path = folder / "own.yaml"
    path.write_text("".join(f"{key}: {text}\n" for key, text in keys.items()))
    return str(path)


@pytest.mark.parametrize(
    ("name", "module"), [("rubric", _rubric), ("pairwise", _pairwise), ("yes_no", _yes_no)]
)
def test_ours_begin_with_the_documents(name: str, module: object) -> None:
    prompt = load_prompt(name, module.NEEDS)  # type: ignore[attr-defined]
    assert prompt.shared.prompt.startswith("{context}")
    assert prompt.hash == prompt.shared.hash != ""


def test_all_of_them_share_their_beginning() -> None:
    """So that judges of several kinds compute the documents of a question once."""
    texts = [path.read_text().split("ask:")[0] for path in PROMPTS.glob("*.yaml")]
    assert len({text.split("\n", 1)[1] for text in texts}) == 1


def test_one_of_your_own(tmp_path: Path) -> None:
    prompt = load_prompt(written(tmp_path, **GOOD), NEEDS)
    assert (prompt.shared.prompt, prompt.ask) == ("{context} {question}", "{response}: {check}")
    without = {**GOOD, "shared": "'{question}'", "ask": "'{reference} {response} {check}'"}
    path = tmp_path / "closed_book.yaml"
    path.write_text("".join(f"{key}: {text}\n" for key, text in without.items()))
    assert load_prompt(str(path), NEEDS).shared.prompt == "{question}"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"ask": "'{response}'"}, r"'ask' lacks \{check\}"),
        ({"ask": "'{response} {check} {chek}'"}, r"'ask' has unknown \{chek\}"),
        ({"shared": "'{context}'"}, r"'shared' lacks \{question\}"),
        ({"shared": "'{question} {reference}'"}, r"'shared' has unknown \{reference\}"),
        ({"joiner": "3"}, "'joiner' is no text"),
        ({"extra": "x"}, "not the keys it needs"),
        ({"ask": "'{response"}, "is not YAML"),
    ],
)
def test_wrong_templates(tmp_path: Path, keys: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_prompt(written(tmp_path, **{**GOOD, **keys}), NEEDS)


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(UserError, match="no prompt 'rubrik'") as caught:
        load_prompt("rubrik", NEEDS)
    assert caught.value.allowed == ["pairwise", "rubric", "yes_no"]
