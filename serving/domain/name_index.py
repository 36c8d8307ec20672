"""Words of names by how they sound and begin: what a word that nobody has written may stand for."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from jellyfish import damerau_levenshtein_distance, metaphone

LEAST_LETTERS = 3
"""Shorter words sound like too many others, and begin too many."""

_WORD = re.compile(r"[^\W\d_]+")


def words_of(text: str) -> Iterator[str]:
    """The runs of letters of a text, as they are written, where they are long enough to tell."""
    return (word for word in _WORD.findall(text) if len(word) >= LEAST_LETTERS)


class _Spelling(NamedTuple):
    """A word of a name, folded and with a capital."""

    folded: str
    written: str


class NameIndex:
    """Words of names by the key of Metaphone, which writes a word as English sounds it.

    Only words with a capital are taken: in "gallery on Melrose Avenue" two are of a name.

    Source:
        Philips, "Hanging on the Metaphone", Computer Language 7 (12), 1990.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._by_sound: defaultdict[str, set[_Spelling]] = defaultdict(set)
        self._by_beginning: defaultdict[str, set[_Spelling]] = defaultdict(set)
        self.add(names)

    def add(self, names: Iterable[str]) -> None:
        """Takes in names as they are written; a repeat changes nothing."""
        for name in names:
            for word in words_of(name):
                if (folded := word.casefold()) != word:
                    spelling = _Spelling(folded, word.capitalize())
                    self._by_sound[metaphone(folded)].add(spelling)
                    self._by_beginning[folded[:LEAST_LETTERS]].add(spelling)

    def meant_by(self, word: str) -> str | None:
        """The word of a name that this one is probably misheard from, or short for.

        None if there is none, or if the word is itself of a name.

        Args:
            word: As the question writes it, of at least `LEAST_LETTERS`.
        """
        folded = word.casefold()
        if any(each.folded == folded for each in self._beginning_with(folded)):
            return None
        return self._sounding_like(folded) or self._short_for(folded)

    def _sounding_like(self, folded: str) -> str | None:
        """What sounds the same and is spelt most like it; of two that are equally near none."""
        if not (sound := metaphone(folded)):
            return None
        alike = self._by_sound.get(sound, ())
        near = sorted((damerau_levenshtein_distance(folded, each.folded), each) for each in alike)
        if not near or (len(near) > 1 and near[0][0] == near[1][0]):
            return None
        distance, spelling = near[0]
        return spelling.written if distance <= most_letters_apart(spelling.folded) else None

    def _short_for(self, folded: str) -> str | None:
        """The only one that begins so."""
        longer = self._beginning_with(folded)
        return longer[0].written if len(longer) == 1 else None

    def _beginning_with(self, folded: str) -> list[_Spelling]:
        begun = self._by_beginning.get(folded[:LEAST_LETTERS], ())
        return [each for each in begun if each.folded.startswith(folded)]


def most_letters_apart(word: str) -> int:
    """How many letters of a word may be other than they were heard, added, lost or swapped."""
    return 1 if len(word) < 4 else 2 if len(word) < 6 else 3
