"""Comparable form of a text in any script.

Guarantees: `fold` is idempotent, and a text with at least one letter or digit, of whatever
script, never folds to the empty string. What is and is not told apart:

- letter case, compatibility forms (full width, ligatures) and digit shapes are not;
- punctuation is a word break, also inside a word, so that `Jean-Paul`, `Jean Paul` and the
  `Jean - Paul` of a word-level tokenizer are one form;
- numbers keep their value: `3.5` is not `35`, `-5` is not `5`, and `1,000` is `1000`;
- symbols (`C++`, `$5`) and diacritics (`Sao`, `São`) are kept.

Example: `fold("The  O'Brien-Smith, 1,000 km!") == "the o brien smith 1000 km"`.
"""

from __future__ import annotations

import re
import unicodedata

# Scripts written without spaces, and Hangul, where particles are joined to the noun.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u318f"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\U00020000-\U000323af"
)
_UNSPACED_CHAR = re.compile(f"[{_UNSPACED}]")
_TOKEN = re.compile(f"[{_UNSPACED}]|[^\\s{_UNSPACED}]+")

_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
_NOT_MINUS = re.compile(r"(?<=\S)-|-(?!\.?[0-9])")
_BARE_POINT = re.compile(r"(?<!\S)(-?)\.(?=[0-9])")
_NOT_POINT = re.compile(r"(?<![0-9])\.|\.(?![0-9])")


class _Characters(dict[int, str]):
    """Translation table filled on demand, so that a long text costs one pass in C."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        category = unicodedata.category(char)
        if char in ".,":
            out = char
        elif category == "Pd" or char == "\u2212":
            out = "-"
        elif category == "Nd":
            out = str(unicodedata.decimal(char))
        elif category == "Cf":
            out = ""
        elif category[0] in "PZ" or category in ("Sk", "Cc"):
            out = " "
        else:
            out = char
        self[code] = out
        return out


_CHARACTERS = _Characters()


def fold(text: str) -> str:
    """The comparable form of `text`: words separated by single spaces. Never raises."""
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFD", text).casefold())
    text = unicodedata.normalize("NFKC", text.casefold()).translate(_CHARACTERS)
    text = _THOUSANDS.sub("", text).replace(",", " ")
    text = _BARE_POINT.sub(r"\g<1>0.", _NOT_MINUS.sub(" ", text))
    text = _NOT_POINT.sub(" ", text)
    return " ".join(unicodedata.normalize("NFKC", text).split())


def tokens(folded: str) -> list[str]:
    """Tokens of a folded text: words, and single characters where a script has no spaces."""
    return _TOKEN.findall(folded)


def is_unspaced(char: str) -> bool:
    """Whether `char` belongs to a script in which words are not separated by spaces."""
    return _UNSPACED_CHAR.match(char) is not None
