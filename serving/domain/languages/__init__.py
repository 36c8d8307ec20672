"""Languages: the words that parts of the service know, one file a language.

A tenant's language is its `text_search_config`, the name of a stemmer of Snowball. A language
without a file has stems and no words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from importlib import resources
from string import digits

import Stemmer

from serving.domain.languages.language import NEVER, Language, read_language

SIMPLE = "simple"
"""The language of a tenant whose words have no stems."""

LANGUAGE_NAMES = frozenset({SIMPLE, *Stemmer.algorithms()})
"""The languages that a tenant may have."""

_FOLDER = resources.files(__name__)
_NAMES = sorted(
    file.name.removesuffix(".toml") for file in _FOLDER.iterdir() if file.name.endswith(".toml")
)


def _read(name: str) -> Language:
    file = (_FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    return read_language(name, file, _words_of(f"{name}_words"), _words_of(f"{name}_further_words"))


def _words_of(name: str) -> str:
    """The words of a list; none if there is no such list."""
    file = _FOLDER / f"{name}.txt"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return " ".join(line for line in lines if not line.startswith("#"))


ENGLISH = _read("english")
_LANGUAGES = {"english": ENGLISH} | {name: _read(name) for name in _NAMES if name != "english"}


class _Known:
    """The words by which each of some languages is known, by its name, and all of them."""

    def __init__(self, words: Mapping[str, AbstractSet[str]]) -> None:
        self.words = words
        self.all_words = frozenset[str]().union(*words.values())

    def languages(self, words: AbstractSet[str], usual: Language, lead: int) -> Sequence[Language]:
        """The languages that have most of the words: the usual one, or those with `lead` more."""
        found = words & self.all_words
        least = len(words & self.words.get(usual.name, frozenset())) + lead
        if len(found) < max(least, 1):
            return [usual]  # as no language has more than all of them
        counts = {name: len(found & own) for name, own in self.words.items()}
        most = max(counts.values())
        if most < least:
            return [usual]
        return [_LANGUAGES[name] for name, count in counts.items() if count == most]


_BY_CHANGES = _Known(
    {name: each.function_words for name, each in _LANGUAGES.items() if each.changes is not NEVER}
)
_BY_TEXT = _Known(
    {
        name: each.function_words.union(each.digits.keys() - {*digits}, each.months, each.weekdays)
        for name, each in _LANGUAGES.items()
    }
)


_TIMES_IN_ENGLISH = frozenset(
    word
    for each in _LANGUAGES.values()
    for times in each.times.values()
    for word in times.casefold().split()
    if word.isalpha()
)
_TIME_WORDS = {
    name: frozenset(" ".join(each.times).split())
    - _TIMES_IN_ENGLISH
    - ENGLISH.clock_minutes.keys()
    - each.function_words
    for name, each in _LANGUAGES.items()
    if each.times
}
_BY_TIMES = _Known(
    {"english": _BY_TEXT.words["english"] | _TIMES_IN_ENGLISH}
    | {name: _BY_TEXT.words[name] | words for name, words in _TIME_WORDS.items()}
)


def language_of_words(
    words: AbstractSet[str], usual: Language = ENGLISH, lead: int = 1
) -> Language:
    """The language that most of the function words are of, among those with words of change.

    Args:
        words: Those of a text; a tenant's texts may be of several languages.
        usual: The language unless another one has more of the words.
        lead: How many more. A single word may be a name: "Mia" is Italian for "my".
    """
    return _BY_CHANGES.languages(words, usual, lead)[0]


def languages_of_text(words: AbstractSet[str], usual: Language) -> Sequence[Language]:
    """The languages that a text may be of, by its words that say nothing, count or date.

    It is the usual one unless another one has more of them, two more if the usual one is not the
    default. Of a few words may be several: "la" is French, Italian and Spanish.
    """
    return _BY_TEXT.languages(words, usual, 1 if usual is ENGLISH else 2)


def language_of_times(words: AbstractSet[str]) -> Language:
    """The language in which words tell times; English if they tell none.

    A language of which they tell a time needs no more words than English: "volgende week".
    """
    naming = {name for name, known in _TIME_WORDS.items() if not known.isdisjoint(words)}
    if not naming and not any(map(str.isdecimal, words)):
        return ENGLISH
    likely = _BY_TIMES.languages(words, ENGLISH, 0 if naming else 1)
    return next((each for each in likely if each.name in (naming or _TIME_WORDS)), ENGLISH)


FUNCTION_WORDS = frozenset[str]().union(*(each.function_words for each in _LANGUAGES.values()))
"""Function words of all languages: a tenant may have texts in another language than its own."""


def language_of(text_search_config: str) -> Language:
    """The language of this name; without words if none are known."""
    return _LANGUAGES.get(text_search_config) or Language(text_search_config)


@cache
def stemmer_of(language: str) -> Callable[[str], str]:
    """The stem of a word in lower case; the word itself for `SIMPLE` and unknown languages."""
    if language not in LANGUAGE_NAMES - {SIMPLE}:
        return str
    stem: Callable[[str], str] = Stemmer.Stemmer(language).stemWord
    if not (plurals := language_of(language).plurals):
        return stem

    def stem_of_singular(word: str) -> str:
        for plural, singular in plurals:
            word = plural.sub(singular, word)
        return stem(word)

    return stem_of_singular


__all__ = [
    "ENGLISH",
    "FUNCTION_WORDS",
    "LANGUAGE_NAMES",
    "Language",
    "language_of",
    "language_of_times",
    "language_of_words",
    "languages_of_text",
    "stemmer_of",
]
