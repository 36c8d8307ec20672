"""A candidate, and what of its text tells how it stands to others; kept by text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serving.domain.languages import (
    ENGLISH,
    Language,
    language_of,
    language_of_words,
    stemmer_of,
)
from serving.domain.ranking.diversity import words_of
from serving.domain.words.normal_form import normal_form
from serving.domain.words.scripts import words_in
from serving.domain.words.spelled import spelled_words
from serving.domain.words.tokens import numbers_among, tokens

STEM = 5
"""Words are alike if their stems begin with the same letters: "smoke" and "smoking"."""

MAX_REMEMBERED = 1 << 14
"""Texts, and words, whose features are kept."""

WORD = re.compile(r"\w+")
_NAME = re.compile(r"(?<=[\w,;:’'] )([^\W\d_a-z]\w*[a-z]\w*)")
"""A word within a sentence that is written as a name."""
_QUESTION_MARK = re.compile(r"[?\uff1f\u061f]")
_QUESTIONS = re.compile(r"(?:[^.!?\uff1f\u061f]*[?\uff1f\u061f]+\s*)+")
_POSSESSIVE = re.compile(r"\b([^\W\d_]\w+)['’]s\b")

SIGNS = tuple(ENGLISH.signs)

NUMBERS = (*SIGNS, "changes", "length", "long")
"""Numbers of a text: whether it has a sign, whether it has words of change, its distinct words in
twenties, and whether it has more than twenty that are no stop words."""

TYPICAL, LONGEST = 20, 40
"""Words of a long text, and of one beyond which length says nothing more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A candidate as this module sees it.

    Args:
        text: What was said.
        said: When.
        stored: When it was stored, which orders what was said at one time.
        score: How well it answers.
        is_near: Whether it was found by its meaning.
        is_turn: Whether somebody said it. The time of a document is often that of its import.
        speaker: Who said it.
        session: The conversation in which it was said; empty if it is not known.
        vector: That of the turn, times the scale of its memory; None if it is not known.
        after: The place of the candidate right after which it was said, in its session; None if
            that is no candidate or not known.
        closed_by: Where all facts whose evidence it is are closed, the places of the candidates
            that are evidence of those that closed them; else None.
    """

    text: str
    said: datetime
    score: float
    is_near: bool = True
    is_turn: bool = True
    speaker: str = ""
    session: str = ""
    vector: NDArray[np.floating[Any]] | None = None
    after: int | None = None
    closed_by: tuple[int, ...] | None = None
    stored: datetime | None = None

    @property
    def order(self) -> tuple[datetime, datetime]:
        """The key by which the newer of two is found."""
        return self.said, self.stored or self.said


class TextTraits:
    """The traits of a text that decide its relation to others.

    Args:
        text: What was said.
        usual: The language of the question, unless the text has more words of another.
    """

    def __init__(self, text: str, usual: Language) -> None:
        low = text.casefold().replace("’", "'")
        self.text = text
        self._values: dict[int, frozenset[str]] = {}
        self._usual = usual
        self.words = words_of(text)
        self.language = language = language_of_words(self.words, usual, lead=2)
        self.stems = stems_of(self.words, language)
        self.has_question = _QUESTION_MARK.search(low) is not None
        signs = language.signs or {}
        self.signs = {sign: sign in signs and signs[sign].search(low) is not None for sign in SIGNS}
        self.changes = language.changes.search(low) is not None
        # In the order of the words: the first is often the subject.
        self.subject = next(
            (
                stem
                for word in WORD.findall(low)
                if word not in _STARTS and (stem := next(iter(stems_of((word,), language)), ""))
            ),
            "",
        )
        self.names = names_in(text, language)
        self.owners = owners_in(low, language)
        kinds = language.values[:2]
        self.amounts = frozenset(found[0] for _, has in kinds for found in has.finditer(low))
        self.asks = self._asks()
        length = min(len(self.words), LONGEST) / TYPICAL
        own = self.changes, length, len(self.stems) > TYPICAL
        self.numbers = tuple(map(float, (*self.signs.values(), *own)))
        """In the order of `NUMBERS`."""

    def _asks(self) -> bool:
        """Whether it only asks something: a statement in the form of a question tells."""
        if self.signs["tells"]:
            return False
        questions = _QUESTIONS if self.has_question else ENGLISH.questions
        return questions.fullmatch(self.text) is not None

    def values(self, kind: int) -> frozenset[str]:
        """Its values of one of the kinds of the question's language, in lower case."""
        found = self._values.get(kind)
        if found is None:
            _, has = self._usual.values[kind]
            each = (value[0].casefold() for value in has.finditer(self.text))
            found = self._values[kind] = frozenset(each)
        return found

    @cached_property
    def kinds_of_values(self) -> frozenset[int]:
        """The kinds of values that it has: a time, a number, a name, a place."""
        kinds = range(len(self._usual.values))
        return frozenset(kind for kind in kinds if self.values(kind) - self._usual.calendar)

    @cached_property
    def asked_stems(self) -> frozenset[str]:
        """The stems of what it asks that are in nothing it tells: "Where is the key? It is late".

        None of a statement in the form of a question.
        """
        if not self.has_question or self.signs["tells"]:
            return frozenset()
        told = words_of(_QUESTIONS.sub(" ", self.text))
        return self.stems - stems_of(told, self.language)

    @cached_property
    def codes(self) -> frozenset[str]:
        """Its numbers and codes in all their spellings."""
        return numbers_among(tokens(self.text, self.language))

    @cached_property
    def spelled(self) -> frozenset[str]:
        """The words that it spells letter by letter."""
        return spelled_in(self.text, self.language)

    def has_code(self, code: str, *, begins: bool = False) -> bool:
        """Whether it has a number, a code or a spelled word, or one that ends with it.

        If it `begins` with it, a longer one, since the end of a number is one of its spellings.
        """
        if begins:
            return any(own.startswith(code) and own != code for own in self.codes)
        return (
            code in self.words
            or code in self.spelled
            or any(own.endswith(code) for own in self.codes)
        )


def spelled_in(text: str, language: Language) -> frozenset[str]:
    """The words that a text spells letter by letter, in lower case."""
    low = language.folded(normal_form(text))
    return frozenset(word for _, word in spelled_words(low, words_in(low), language))


def names_in(text: str, language: Language) -> frozenset[str]:
    """The words within sentences that are written as names, in lower case."""
    # In German every noun is.
    capitals = () if language.name == "german" else _NAME.findall(text)
    return frozenset(map(str.casefold, capitals)) - language.calendar


def owners_in(low: str, language: Language) -> frozenset[str]:
    """The owners in a text in lower case: "ana's"."""
    return frozenset(_POSSESSIVE.findall(low)) - language.function_words


_STARTS = frozenset(
    {"actually", "doctor", "oh", "ok", "okay", "right", "sorry", "wait", "well", "yes"}
)
"""Words before the subject of a text."""


@lru_cache(MAX_REMEMBERED)
def traits_of(text: str, usual: str) -> TextTraits:
    """The traits of a text, for a question in the language of this name."""
    return TextTraits(text, language_of(usual))


@lru_cache(MAX_REMEMBERED)
def words_of_speaker(name: str) -> frozenset[str]:
    """The words of a speaker's name, in lower case."""
    return frozenset(name.casefold().split())


@lru_cache(MAX_REMEMBERED)
def stem_of(word: str, language: str) -> str:
    """The beginning of the stem of a word."""
    return stemmer_of(language)(word)[:STEM]


def stems_of(words: Iterable[str], language: Language) -> frozenset[str]:
    """The beginnings of the stems of words, without stop words."""
    ignored, name = _ignored_words(language.name), language.name
    return frozenset(stem_of(word, name) for word in words if word not in ignored)


@cache
def _ignored_words(name: str) -> frozenset[str]:
    # The function words have the "s" of "Bea's", which is no word that two statements share.
    language = language_of(name)
    return language.stop_words | language.function_words
