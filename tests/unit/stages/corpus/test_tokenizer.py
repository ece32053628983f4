from __future__ import annotations

from pathlib import Path

import pytest

from schemas.errors import UserError
from stages.corpus._tokenizer import (
    PretrainedTokenizer,
    WordLevelTokenizer,
    load_pretrained,
    make_tokenizer,
    word_level,
)
from stages.runtime.variant import checked

TEXTS = ["The capital of Benin is Porto-Novo [3].", "The capital of Chad is N'Djamena [12]. of"]


def config(**values: object) -> WordLevelTokenizer:
    given = {"kind": "word_level", "max_words": 100, "markers": 12, "words": ["What", "?", "is"]}
    return WordLevelTokenizer.model_validate({**given, **values})


def tokens(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_vocabulary_order() -> None:
    tokenizer = word_level(config(markers=2), TEXTS)
    by_id = [tokenizer.convert_ids_to_tokens(i) for i in range(len(tokenizer))]
    assert by_id[:10] == [
        "<pad>", "<eos>", "<unk>", "<think>", "</think>", "What", "?", "is", "[1]", "[2]",
    ]  # fmt: skip
    # of 3; . The capital 2; then by code point
    assert by_id[10:] == [
        "of", ".", "The", "capital", "Benin", "Chad", "N'Djamena", "Porto-Novo", "[12]", "[3]",
    ]  # fmt: skip


def test_max_words_closes_the_vocabulary() -> None:
    tokenizer = word_level(config(max_words=1, markers=0), TEXTS)
    assert len(tokenizer) == 9
    assert tokenizer.tokenize("of Benin") == ["of", "<unk>"]


def test_names_and_markers_are_one_token_and_decode_joins_with_spaces() -> None:
    tokenizer = word_level(config(), TEXTS)
    ids = tokenizer.encode(TEXTS[0])
    assert tokenizer.decode(ids) == "The capital of Benin is Porto-Novo [3] ."
    think = "<think> capital </think> What ?"
    assert tokenizer.decode(tokenizer.encode(think), skip_special_tokens=True) == think
    batch = tokenizer(["of", "of Chad"], padding=True)
    assert batch["input_ids"][0][0] == tokenizer.pad_token_id
    assert set(batch) == {"input_ids", "attention_mask"}
    assert tokenizer.chat_template is None and tokenizer.eos_token == "<eos>"


def test_round_trip_and_same_bytes(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    for name in ("a", "b"):
        word_level(config(), reversed(TEXTS) if name == "b" else TEXTS).save_pretrained(
            tmp_path / name
        )
    assert tokens(tmp_path / "a") == tokens(tmp_path / "b")
    loaded = AutoTokenizer.from_pretrained(tmp_path / "a")
    assert loaded.encode(TEXTS[1]) == word_level(config(), TEXTS).encode(TEXTS[1])
    assert loaded.padding_side == "left" and loaded.chat_template is None
    assert (loaded.pad_token, loaded.eos_token, loaded.unk_token) == ("<pad>", "<eos>", "<unk>")


def test_pretrained_is_a_copy(tmp_path: Path) -> None:
    word_level(config(), TEXTS).save_pretrained(tmp_path / "model")
    given = PretrainedTokenizer(kind="pretrained", path=str(tmp_path / "model"))
    made = make_tokenizer(given, ())
    made.save_pretrained(tmp_path / "copy")
    load_pretrained(given).save_pretrained(tmp_path / "again")
    assert tokens(tmp_path / "copy") == tokens(tmp_path / "again")
    assert made.encode(TEXTS[0]) == word_level(config(), TEXTS).encode(TEXTS[0])


@pytest.mark.parametrize("name", ["./nothing", "empty"])
def test_pretrained_not_there(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"no tokenizer at .*fix: name a folder|(?s:.*)fix"):
        load_pretrained(PretrainedTokenizer(kind="pretrained", path=name))


def test_a_word_of_two_tokens_is_refused() -> None:
    with pytest.raises(UserError, match="Question:"):
        checked(
            WordLevelTokenizer,
            {"kind": "word_level", "max_words": 1, "markers": 0, "words": ["Question:"]},
            "corpus.tokenizer",
        )
