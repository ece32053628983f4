"""Rendering: nothing of the documents is lost, and markers count in the order of the prompt."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import UserError
from schemas.ids import content_id
from stages.llm.prompts import (
    TEMPLATES,
    Chunk,
    Document,
    Template,
    cite,
    count_tokens,
    load_template,
    render_prompt,
)

# Braces, what a replacement string could take for a group, and closing punctuation.
TEXTS = st.text(st.sampled_from("ab é{}\\1.?!。…\"'”)\n\t"), max_size=30) | st.text(
    st.characters(codec="utf-8", exclude_characters="[]"), max_size=30
)
PLAIN = Template("t", "{text}", "\n", "{context}", "0")


@st.composite
def documents(draw: st.DrawFn) -> list[Document]:
    """Documents whose chunks are any spans in order, none empty, with gaps between them."""
    made = []
    for number, text in enumerate(draw(st.lists(TEXTS, min_size=1, max_size=4))):
        cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=8)))
        pairs = list(zip(cuts[::2], cuts[1::2], strict=False))
        chunks = tuple(Chunk(f"{number}-{start}", start, end) for start, end in pairs)
        made.append(Document(str(number), "title", text, chunks))
    return made


@given(documents())
def test_without_the_markers_the_text_is_as_it_was(found: list[Document]) -> None:
    prompt = render_prompt(PLAIN, "", found)
    assert re.sub(r" \[\d+\]", "", prompt.text) == "\n".join(document.text for document in found)


@given(documents(), st.integers(1, 50))
def test_markers_count_in_the_order_of_the_prompt(found: list[Document], first: int) -> None:
    prompt = render_prompt(PLAIN, "", found, first_marker=first)
    chunks = [chunk.chunk_id for document in found for chunk in document.chunks]
    numbers = list(range(first, first + len(chunks)))
    assert [int(number) for number in re.findall(r" \[(\d+)\]", prompt.text)] == numbers
    assert dict(prompt.markers) == dict(zip(chunks, numbers, strict=True))


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("Paris is old.", "Paris is old [7]."),
        ("Is it?!", "Is it [7]?!"),
        ('He said "no."', 'He said "no [7]."'),
        ("(see below).  \n", "(see below [7]).  \n"),
        ("巴黎。", "巴黎 [7]。"),
        ("no end", "no end [7]"),
        ("Vraiment !", "Vraiment [7] !"),
        ("a.b. c", "a.b. c [7]"),
        ("...", " [7]..."),
        ("", " [7]"),
    ],
)
def test_the_marker_stands_before_the_closing_punctuation(text: str, cited: str) -> None:
    assert cite(text, 7) == cited


def test_braces_in_documents_and_questions_survive() -> None:
    template = Template("t", "{title}: {text}", "|", "{context} {other} Q: {question}", "0")
    found = [Document("d", "{text}", "{question} {context}", (Chunk("c", 0, 10),))]
    prompt = render_prompt(template, "{context} \\1 {title}?", found)
    assert prompt.text == ("{text}: {question} [1] {context} {other} Q: {context} \\1 {title}?")


def test_the_hash_is_of_the_rendered_text() -> None:
    found = [Document("d", "t", "a b.", (Chunk("c", 0, 4),))]
    prompt = render_prompt(PLAIN, "", found)
    assert prompt.hash == content_id("a b [1].")
    assert render_prompt(PLAIN, "", found, first_marker=2).hash != prompt.hash


class Chat:
    chat_template: str | None = "x"

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        return [0] * add_special_tokens + [1] * len(text.split())

    def apply_chat_template(self, conversation: Any, **kwargs: Any) -> str:
        assert kwargs == {"tokenize": False, "add_generation_prompt": True}
        return f"<{conversation[0]['role']}>{conversation[0]['content']}<assistant>"


def test_a_chat_template_wraps_the_prompt() -> None:
    found = [Document("d", "t", "a b.", (Chunk("c", 0, 4),))]
    chat = Chat()
    prompt = render_prompt(PLAIN, "", found, chat)
    assert prompt.text == "<user>a b [1].<assistant>"
    assert dict(prompt.markers) == {"c": 1}
    chat.chat_template = None
    assert render_prompt(PLAIN, "", found, chat).text == "a b [1]."


def test_tokens_are_counted_without_special_ones() -> None:
    assert count_tokens(Chat(), "a b c") == 3


@pytest.mark.parametrize("name", [path.stem for path in TEMPLATES.glob("*.yaml")])
def test_every_template_holds_what_it_must(name: str) -> None:
    template = load_template(name)
    assert "{text}" in template.document
    assert "{context}" in template.prompt
    assert "{question}" in template.prompt
    assert template.hash == content_id((TEMPLATES / f"{name}.yaml").read_text())


def test_a_template_of_the_users_own(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text('document: "{text}"\njoiner: "\\n"\nprompt: "{context}"\n')
    assert load_template(str(file)).prompt == "{context}"
    assert load_template(str(file)).thinking
    file = tmp_path / "silent.yaml"
    file.write_text('thinking: false\ndocument: "{text}"\njoiner: "\\n"\nprompt: "{context}"\n')
    assert not render_prompt(load_template(str(file)), "q", []).thinking
    file = tmp_path / "often.yaml"
    file.write_text('thinking: often\ndocument: "{text}"\njoiner: "\\n"\nprompt: "{context}"\n')
    with pytest.raises(UserError, match="thinking: often"):
        load_template(str(file))
    file = tmp_path / "bad.yaml"
    file.write_text('documents: "{text}"\n')
    with pytest.raises(UserError, match=r"has keys \['documents'\]"):
        load_template(str(file))


def test_an_unknown_template_lists_those_there_are() -> None:
    with pytest.raises(UserError) as caught:
        load_template("plian")
    assert caught.value.allowed == ["direct", "instruct", "plain"]
