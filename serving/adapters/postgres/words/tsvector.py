"""The words of a segment as PostgreSQL stores them.

PostgreSQL's own parser is not used: it reads `-0014` as a signed integer, takes a text without
spaces for one word, and depends on the locale of the database.
"""

from __future__ import annotations

from typing import NamedTuple

from serving.domain.items.records import Segment
from serving.domain.languages import language_of
from serving.domain.words.lexemes import is_function_word, is_part, languages_of, stored_lexemes


class StoredWords(NamedTuple):
    """A tsvector as text, and the number of distinct lexemes, without function words and parts."""

    tsv: str
    dl: int


def stored_words(segment: Segment, text_search_config: str) -> StoredWords:
    """The words of a segment.

    Each part has its label: A title, B keywords, C speaker, D text.
    """
    languages = languages_of(segment.text, language_of(text_search_config))
    places: dict[str, list[str]] = {}
    end = 0
    for text, label in (
        (segment.title, "A"),
        (segment.speaker, "C"),
        (segment.text, ""),
        (". ".join(segment.keywords), "B"),
    ):
        found = stored_lexemes(text, *languages) if text else []
        for lexeme, place in found:
            places.setdefault(lexeme, []).append(f"{end + place}{label}")
        end += max((place for _, place in found), default=0)
    tsv = " ".join(f"'{lexeme}':{','.join(at)}" for lexeme, at in places.items())
    return StoredWords(tsv, sum(not (is_function_word(each) or is_part(each)) for each in places))
