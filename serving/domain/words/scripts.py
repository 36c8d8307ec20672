"""Words in any script; pairs of letters where a script has no spaces between words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import pairwise


def _ranges(points: Iterable[int]) -> str:
    """The points as the inside of a character class."""
    ranges: list[list[int]] = []
    for point in points:
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


_FIRST_MARK, _LAST_SCRIPT = 0x300, 0x1F000
# Vowel signs, tone marks and the like, which `\w` does not have.
MARKS = _ranges(
    point
    for point in range(_FIRST_MARK, _LAST_SCRIPT)
    if unicodedata.category(chr(point)).startswith("M")
)
# Flags are one, and skin tones none.
_EMOJI = (
    "[\U0001f1e6-\U0001f1ff]{2}"
    "|[\u231a-\u23ff\u2600-\u27bf\u2b50\u2b55\U0001f000-\U0001f3fa\U0001f400-\U0001faff]"
)
_HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# Thai, Lao, Burmese, Khmer, kana, Bopomofo; and Korean, whose words have endings.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3100-\u312f\u31f0-\u31ff"
    f"\u1100-\u11ff\uac00-\ud7af{_HAN}"
)

WORD = re.compile(rf"[\w{MARKS}]+|{_EMOJI}")
"""A word between blanks and punctuation, or an emoji."""

_ASCII_WORD = re.compile("[a-z0-9]+")

_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_IS_HAN = re.compile(f"[{_HAN}]")
UNSPACED_RUN = re.compile(f"[{_UNSPACED}][{_UNSPACED}{MARKS}]*")
"""Letters without spaces between words, with their marks."""

_RUN = re.compile(f"[{_UNSPACED}][{_UNSPACED}{MARKS}]*|[^{_UNSPACED}]+")
_CLUSTER = re.compile(f"[^{MARKS}][{MARKS}]*|[{MARKS}]+")


def words_in(text: str) -> list[str]:
    """The words of a text in lower case, and its emoji."""
    return (_ASCII_WORD if text.isascii() else WORD).findall(text)


def word_starts(text: str) -> list[int]:
    """The starts of the words of a text, in the order of `words_in`."""
    words = (_ASCII_WORD if text.isascii() else WORD).finditer(text)
    return [word.start() for word in words]


def is_unspaced(word: str) -> bool:
    """Whether a word has letters of a script that puts no spaces between words."""
    return _IS_UNSPACED.search(word) is not None


def letters_of(word: str) -> list[str]:
    """The letters of a word, each with its marks."""
    return _CLUSTER.findall(word)


def letter_pairs(word: str) -> list[str]:
    """The overlapping pairs of letters of each run without spaces, and the rest of the word.

    Letters have their marks. Chinese characters are also found alone: many are words. Pairs and
    single characters together find more than either (K. L. Kwok, Comparing Representations in
    Chinese Information Retrieval, SIGIR 1997).
    """
    found = []
    for run in _RUN.findall(word):
        if not is_unspaced(run):
            found.append(run)
            continue
        letters = letters_of(run)
        pairs = [left + right for left, right in pairwise(letters)]
        found += pairs or letters
        found += _IS_HAN.findall(run) if pairs else []
    return found
