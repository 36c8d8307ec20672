"""Words of names by sound and by prefix, to correct a word that is stored nowhere."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from jellyfish import damerau_levenshtein_distance, metaphone

MIN_LETTERS = 3
"""Shorter words match too many names by sound and by prefix."""

_WORD = re.compile(r"[^\W\d_]+")
_LATIN = str.maketrans(
    {"æ": "ae", "ð": "d", "ø": "o", "þ": "th", "đ": "d", "\u0131": "i", "ł": "l", "œ": "oe"}
)
"""The letters of names that Unicode does not compose of another one and a mark."""


def words_of(text: str) -> Iterator[str]:
    """The words of a text that have at least `MIN_LETTERS` letters, as written."""
    return (word for word in _WORD.findall(text) if len(word) >= MIN_LETTERS)


class _Spelling(NamedTuple):
    """A word of a name: casefolded, capitalised, and without accents."""

    folded: str
    written: str
    plain: str


class NameIndex:
    """Words of names by their Metaphone key, which encodes the English pronunciation.

    Only capitalised words are added: in "gallery on Melrose Avenue" two belong to a name.

    Source:
        Philips, "Hanging on the Metaphone", Computer Language 7 (12), 1990.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._by_sound: defaultdict[str, set[_Spelling]] = defaultdict(set)
        self._by_beginning: defaultdict[str, set[_Spelling]] = defaultdict(set)
        self.add(names)

    def add(self, names: Iterable[str]) -> None:
        """Adds names as they are written; a repeat changes nothing."""
        for name in names:
            for word in words_of(name):
                if (folded := word.casefold()) != word:
                    spelling = _Spelling(folded, word.capitalize(), plain := _plain(folded))
                    self._by_sound[metaphone(plain)].add(spelling)
                    self._by_beginning[plain[:MIN_LETTERS]].add(spelling)

    def meant_by(self, word: str) -> str | None:
        """The word of a name that this word probably stands for: misheard, or shortened.

        None if there is none, or if the word itself belongs to a name. It is as the question writes
        it, with at least `MIN_LETTERS` letters.
        """
        folded = word.casefold()
        plain = _plain(folded)
        begun = self._by_beginning.get(plain[:MIN_LETTERS], ())
        longer = [each for each in begun if each.plain.startswith(plain)]
        if any(each.folded == folded for each in longer):
            return None
        only_one = longer[0].written if len(longer) == 1 else None
        return self._sounding_like(plain) or only_one

    def _sounding_like(self, plain: str) -> str | None:
        """The word with the same sound and the nearest spelling; None if two are equally near."""
        if not (sound := metaphone(plain)):
            return None
        alike = self._by_sound.get(sound, ())
        near = sorted((damerau_levenshtein_distance(plain, each.plain), each) for each in alike)
        if not near or (len(near) > 1 and near[0][0] == near[1][0]):
            return None
        distance, spelling = near[0]
        return spelling.written if distance <= most_letters_apart(spelling.folded) else None


def _plain(word: str) -> str:
    """A word without accents; Metaphone skips letters that English does not have."""
    letters = unicodedata.normalize("NFD", word.translate(_LATIN))
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def most_letters_apart(word: str) -> int:
    """The maximum edit distance between a misheard word and a word of a name."""
    return 1 if len(word) < 4 else 2 if len(word) < 6 else 3
