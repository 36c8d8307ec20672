"""Languages: the words that parts of the service know, one file a language.

A tenant's language is its `text_search_config`, the name of a stemmer (`stems.py`). A language
without a file has stems and no words.
"""

from collections.abc import Set as AbstractSet

from serving.domain.languages.arabic import ARABIC
from serving.domain.languages.danish import DANISH
from serving.domain.languages.dutch import DUTCH
from serving.domain.languages.english import ENGLISH
from serving.domain.languages.finnish import FINNISH
from serving.domain.languages.french import FRENCH
from serving.domain.languages.german import GERMAN
from serving.domain.languages.hindi import HINDI
from serving.domain.languages.hungarian import HUNGARIAN
from serving.domain.languages.italian import ITALIAN
from serving.domain.languages.language import Language
from serving.domain.languages.norwegian import NORWEGIAN
from serving.domain.languages.portuguese import PORTUGUESE
from serving.domain.languages.russian import RUSSIAN
from serving.domain.languages.spanish import SPANISH
from serving.domain.languages.stems import LANGUAGE_NAMES, stemmer_of
from serving.domain.languages.swedish import SWEDISH
from serving.domain.languages.turkish import TURKISH

_LANGUAGES = {
    language.name: language
    for language in (
        ARABIC,
        DANISH,
        DUTCH,
        ENGLISH,
        FINNISH,
        FRENCH,
        GERMAN,
        HINDI,
        HUNGARIAN,
        ITALIAN,
        NORWEGIAN,
        PORTUGUESE,
        RUSSIAN,
        SPANISH,
        SWEDISH,
        TURKISH,
    )
}


_WITH_CHANGES = (ENGLISH, DUTCH, FRENCH, GERMAN, SPANISH)


def language_of_words(words: AbstractSet[str]) -> Language:
    """The language that most of the function words are of, among those with words of change.

    English without any, and of equal counts: a tenant's turns may be of several languages.
    """
    return max(_WITH_CHANGES, key=lambda language: len(words & language.function_words))


FUNCTION_WORDS = frozenset[str]().union(*(each.function_words for each in _LANGUAGES.values()))
"""Those of all languages: a tenant may have texts in another language than its own."""


def language_of(text_search_config: str) -> Language:
    """The language of this name; without words if none are known."""
    return _LANGUAGES.get(text_search_config, Language(text_search_config))


__all__ = [
    "ENGLISH",
    "FUNCTION_WORDS",
    "LANGUAGE_NAMES",
    "Language",
    "language_of",
    "language_of_words",
    "stemmer_of",
]
