"""Languages: the words that parts of the service know, one file a language.

A tenant's language is its `text_search_config`, the name of a stemmer of Snowball. A language
without a file has stems and no words.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import cache
from importlib import resources

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

_WITH_CHANGES = [each for each in _LANGUAGES.values() if each.changes is not NEVER]
_THEIR_FUNCTION_WORDS = frozenset[str]().union(*(each.function_words for each in _WITH_CHANGES))


def language_of_words(
    words: AbstractSet[str], usual: Language = ENGLISH, lead: int = 1
) -> Language:
    """The language that most of the function words are of, among those with words of change.

    Args:
        words: Those of a text; a tenant's texts may be of several languages.
        usual: The language unless another one has more of the words.
        lead: How many more. A single word may be a name: "Mia" is Italian for "my".
    """
    found, of_usual = words & _THEIR_FUNCTION_WORDS, len(words & usual.function_words)
    if len(found) - of_usual < lead:
        return usual  # as no language has more than all of them
    best = max(_WITH_CHANGES, key=lambda language: len(found & language.function_words))
    return best if len(found & best.function_words) - of_usual >= lead else usual


FUNCTION_WORDS = frozenset[str]().union(*(each.function_words for each in _LANGUAGES.values()))
"""Those of all languages: a tenant may have texts in another language than its own."""


def language_of(text_search_config: str) -> Language:
    """The language of this name; without words if none are known."""
    return _LANGUAGES.get(text_search_config, Language(text_search_config))


@cache
def stemmer_of(language: str) -> Callable[[str], str]:
    """The stem of a word in lower case; the word itself for `SIMPLE` and unknown languages."""
    if language not in LANGUAGE_NAMES - {SIMPLE}:
        return str
    stem: Callable[[str], str] = Stemmer.Stemmer(language).stemWord
    return stem


__all__ = [
    "ENGLISH",
    "FUNCTION_WORDS",
    "LANGUAGE_NAMES",
    "Language",
    "language_of",
    "language_of_words",
    "stemmer_of",
]
