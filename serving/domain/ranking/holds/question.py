"""The question: what kind of answer it has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from serving.domain.languages import Language, language_of_words
from serving.domain.ranking.diversity import jaccard, words_of
from serving.domain.ranking.holds.statement import (
    TextTraits,
    names_in,
    owners_in,
    spelled_in,
    stems_of,
)
from serving.domain.words.codes import RANKS
from serving.domain.words.tokens import Token, numbers_among, tokens

MIN_CODE = 3
"""The characters of a code or a number that is asked for; a shorter one may be a count."""

REPEATED = 0.8
"""The share of common words from which a text repeats the question."""

ASKED = 0.5
"""The share of the words of the question beyond which a text that asks with them asks it too."""

MAX_REPEATED_LENGTH = 2
"""The greatest ratio of the length of a repeating text to that of the question."""

_YEAR = re.compile(r"(?:19|20)\d\d\Z")


class Question:
    """The question: what kind of answer it has."""

    def __init__(self, text: str) -> None:
        text = text.lstrip("¿ ")
        self._length = len(text)
        words = words_of(text)
        self.language = language = language_of_words(words)
        self.names = names_in(text, language)
        self.owners = owners_in(text.casefold().replace("’", "'"), language)
        self.words = words
        self.stems = stems_of(words, language)
        self.asks_for_beginning = language.begins.search(text) is not None
        said = tokens(text, language)
        years = () if self.asks_for_beginning else _years_among(said, language)
        self.asked_codes = [
            code
            for code in numbers_among(said).difference(years)
            if len(code) >= MIN_CODE and not code.endswith(RANKS)
        ]
        self.spelled = spelled_in(text, language)
        self.asks_for_past = language.past.search(text) is not None
        is_about_either = not self.asks_for_past and language.was.search(text) is not None
        self.may_be_any = is_about_either or self._is_about_a_name(text)
        self.asks_whether = language.whether.match(text) is not None
        self.asks_for_old_value = self.asks_whether and "still" in words
        """Whether it may have an older value ("Is the code still 5290?")."""
        self.has_one_answer = self.asks_whether or language.single.search(text) is not None
        self.values = [kind for kind, (asks, _) in enumerate(language.values) if asks.search(text)]
        """The kinds of values that are asked for, by their place in the language."""

    def _is_about_a_name(self, text: str) -> bool:
        """Whether it asks who somebody is ("Which Rose is it?"), and not for a value of something.

        What is said of one who has the name outdates nothing that is said of another.
        """
        found = self.language.who.match(text)
        name = found[found.lastindex or 0] if found else ""
        return name[:1].isupper() and name.casefold() not in self.language.calendar

    def longest_code(self, stored: TextTraits, codes: Iterable[str]) -> int:
        """The characters of the longest of the codes that a text has; 0 if it has none."""
        found = (code for code in codes if stored.has_code(code, begins=self.asks_for_beginning))
        return max(map(len, found), default=0)

    def codes_among(self, stored: Sequence[TextTraits]) -> list[str]:
        """Its codes, and its words that it or one of the texts spells letter by letter."""
        spelled = frozenset[str]().union(*(each.spelled for each in stored)) & self.words
        return [*self.asked_codes, *sorted(spelled | self.spelled)]

    def repeats_question(self, stored: TextTraits) -> bool:
        """Whether a stored text only asks something, or repeats this question."""
        return (
            stored.asks
            or self._is_asked_in(stored)
            or (
                # Longer texts have other words; to split them takes time.
                len(stored.text) <= MAX_REPEATED_LENGTH * self._length
                and jaccard(stored.words, self.words) >= REPEATED
            )
        )

    def _is_asked_in(self, stored: TextTraits) -> bool:
        """Whether a text asks this too, and what else it says has none of the question's words."""
        common = self.stems & stored.asked_stems
        return len(common) > ASKED * len(self.stems) and common == self.stems & stored.stems

    def values_of(self, stored: TextTraits) -> frozenset[str]:
        """The values of the kind that is asked for, in lower case; none of the question's own."""
        return frozenset[str]().union(*map(stored.values, self.values)) - self.words

    def has_value(self, stored: TextTraits) -> bool:
        """Whether a statement has a value of the kind that is asked for."""
        return any(map(stored.values, self.values))


def _years_among(said: Sequence[Token], language: Language) -> frozenset[str]:
    """The numbers of a question that are years: "in 2014", "May 2014", and not "the code 2014"."""
    word_at = {place: word for word, place in reversed(said)}
    leading = {"", *language.function_words, *language.calendar}
    return frozenset(
        word for word, place in said if _YEAR.match(word) and word_at.get(place - 1, "") in leading
    )
