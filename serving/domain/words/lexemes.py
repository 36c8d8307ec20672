"""Lexemes: what the search by words compares, the stems of tokens in the tenant's language."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import TypeAlias

from serving.domain.languages import Language, language_of, stemmer_of
from serving.domain.words.tokens import tokens

MAX_BRIEF = 12
"""A text of more words is not found by its function words: nobody means them, and they would double
the index."""

MAX_REMEMBERED = 1 << 15
"""Words of a language whose lexeme is remembered, which halves the time."""

MAX_LETTERS = 100
"""A longer word is cut: it is data."""

FUNCTION_CHARACTERS = frozenset(
    "的是了在我你您他她它们們吗嗎呢吧啊么麼什谁誰哪几幾何这這那有和与也都就很个個为為从從把被给給之其"
)
"""Chinese characters that are asked for only in a pair, as function words are in other languages.
They are stored, since a tenant has no language for them."""

FUNCTION_WORD = "~"
"""Begins the lexeme of a function word, so that no stem of another word equals it."""

_CAPITALISED = re.compile(r"(?<=[\w,;] )[^\W\d_a-z]\w++(?!['’]t\b)")
"""A word within a sentence that begins with a capital, and is not the first half of "Don't"."""

Lexeme: TypeAlias = tuple[str, int]
"""A lexeme, and its place among the words of its text, from 1. It has no blanks or quotes."""


def stored_lexemes(text: str, language: Language) -> list[Lexeme]:
    """The lexemes by which a text is found: without function words, unless it is brief."""
    found = _lexemes(text, language)
    if len(found) > MAX_BRIEF:
        found = [lexeme for lexeme in found if not is_function_word(lexeme[0])]
    return found + _names(text, language)


def asked_lexemes(question: str, language: Language) -> Mapping[str, int]:
    """The distinct lexemes of a question with their counts.

    Without function words, unless there is nothing else ("Who is it?", "Who is Will?").
    """
    found = _lexemes(question, language, asked=True)
    counts = dict(Counter(lexeme for lexeme, _ in found))
    names = Counter(lexeme for lexeme, _ in _names(question, language))
    content = {
        lexeme: count
        for lexeme, count in counts.items()
        if not is_function_word(lexeme) and lexeme not in FUNCTION_CHARACTERS
    }
    return (content or counts) | names


def is_function_word(lexeme: str) -> bool:
    """Whether a lexeme says nothing of what a text is about."""
    return lexeme.startswith(FUNCTION_WORD)


def _lexemes(text: str, language: Language, *, asked: bool = False) -> list[Lexeme]:
    lexeme_of = _lexemes_of(language.name)
    return [(lexeme_of(word), place) for word, place in tokens(text, language, asked=asked)]


def _names(text: str, language: Language) -> list[Lexeme]:
    """The lexemes of function words that are written as names: "ask Will", "the IT department"."""
    capitalised = [] if text.isupper() else _CAPITALISED.findall(text)
    names = {
        key
        for word in capitalised
        if (key := language.folded(word)) in language.function_words
        and (word.isupper() or key not in language.not_names)
    }
    if not names:
        return []
    stem = stemmer_of(language.name)
    return [(stem(word), place) for word, place in tokens(text, language) if word in names]


@cache
def _lexemes_of(name: str) -> Callable[[str], str]:
    stem, function_words = stemmer_of(name), language_of(name).function_words

    @lru_cache(MAX_REMEMBERED)
    def lexeme_of(word: str) -> str:
        return FUNCTION_WORD + word if word in function_words else stem(word[:MAX_LETTERS])

    return lexeme_of
