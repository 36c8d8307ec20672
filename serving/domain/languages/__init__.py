"""Languages: the words that parts of the service know, one file a language.

The name of a language is that of its text search configuration in PostgreSQL, which each tenant
has. PostgreSQL itself has the stems and stop words of the search by words.
"""

from serving.domain.languages.english import ENGLISH
from serving.domain.languages.language import Language

_LANGUAGES = {language.name: language for language in (ENGLISH,)}


def language_of(text_search_config: str) -> Language:
    """The language of a text search configuration; without words if none are known."""
    return _LANGUAGES.get(text_search_config, Language(text_search_config))


__all__ = ["ENGLISH", "Language", "language_of"]
