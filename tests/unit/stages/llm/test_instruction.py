"""Prompt files: literal values, and no placeholder that nothing fills."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas.errors import UserError
from stages.corpus import _extraction
from stages.llm.instruction import load_instruction
from stages.synthesize import _rewording

NEEDS = frozenset({"text"})


def test_ours_are_whole() -> None:
    triples = load_instruction("triples", _extraction.PROMPTS, _extraction.NEEDS)
    reword = load_instruction("reword", _rewording.PROMPTS, _rewording.NEEDS)
    assert triples.hash != reword.hash
    (message,) = triples.messages(title="{text}", text="{title} \\1")
    assert "Title: {text}\nText: {title} \\1\n" in message.content
    # The part that all requests share comes first.
    assert message.content.index("Title: {text}") > len(message.content) / 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("instruction: '{text} {tekst}'", r"'instruction' has unknown \{tekst\}"),
        ("instruction: 'nothing'", r"'instruction' lacks \{text\}"),
        ("instruction: 5", "'instruction' is no text"),
        ("[1]", "has list, not the keys it needs"),
        ("ask: x", "has \\['ask'\\], not the keys it needs"),
        ("instruction: 'x", "is not YAML"),
    ],
)
def test_wrong_files(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(content)
    with pytest.raises(UserError, match=message):
        load_instruction(str(path), tmp_path, NEEDS)


def test_a_name_that_is_not_there_lists_the_ones_that_are(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("instruction: '{text}'")
    assert load_instruction("mine", tmp_path, NEEDS).text == "{text}"
    with pytest.raises(UserError, match="no prompt 'yours'") as caught:
        load_instruction("yours", tmp_path, NEEDS)
    assert caught.value.allowed == ["mine"]
