"""Lexemes: what the search by words compares, the stems of tokens in the language of their text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, lru_cache
from typing import TypeAlias

from serving.domain.languages import Language, language_of, languages_of_text, stemmer_of
from serving.domain.words.normal_form import normal_form
from serving.domain.words.scripts import words_in
from serving.domain.words.tokens import Token, tokens

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

PART = "-"
"""Begins the lexeme of the end of a compound: "läkare" of "tandläkare"."""

MIN_PART, MIN_HEAD = 5, 3
"""The letters of the end of a compound, and of what is before it."""

_CAPITALISED = re.compile(r"(?<=[\w,;] )[^\W\d_a-z]\w++(?!['’]t\b)")
"""A word within a sentence that begins with a capital, and is not the first half of "Don't"."""

Lexeme: TypeAlias = tuple[str, int]
"""A lexeme, and its place among the words of its text, from 1. It has no blanks or quotes."""


def languages_of(text: str, usual: Language) -> Sequence[Language]:
    """The languages that a text may be of, the likeliest first, and the usual one of its tenant."""
    found = languages_of_text(frozenset(words_in(normal_form(text).casefold())), usual)
    return found if usual in found else [*found, usual]


def stored_lexemes(text: str, *languages: Language) -> list[Lexeme]:
    """The lexemes by which a text is found: without function words, unless it is brief.

    Args:
        text: The text.
        languages: That of the text, and others whose stems its words have too, such as that of
            its tenant: a question may be in another language than the text.
    """
    read = tokens(text, languages[0])
    found = _lexemes(read, languages)
    if len(read) > MAX_BRIEF:
        found = [lexeme for lexeme in found if not is_function_word(lexeme[0])]
    parts = [(part, place) for word, place in read for part in _parts(word, languages[0])]
    return found + _names(text, languages[0]) + parts


def asked_lexemes(question: str, *languages: Language) -> Mapping[str, int]:
    """The distinct lexemes of a question with their counts.

    Without function words, unless there is nothing else ("Who is it?", "Who is Will?"). The
    languages are as those of a stored text.
    """
    read = tokens(question, languages[0], asked=True)
    found = _lexemes(read, languages)
    counts = dict(Counter(lexeme for lexeme, _ in found))
    names = Counter(lexeme for lexeme, _ in _names(question, languages[0]))
    content = {
        lexeme: count
        for lexeme, count in counts.items()
        if not is_function_word(lexeme) and lexeme not in FUNCTION_CHARACTERS
    }
    wholes = Counter(part for word, _ in read for part in _as_parts(word, languages[0]))
    return (content or counts) | names | wholes


def alternatives(question: str, *languages: Language) -> Collection[Sequence[str]]:
    """The lexemes of each distinct word of `asked_lexemes`, any of which a text may have.

    Two neighbours as one word are none: who writes them as two need not have them.
    """
    language = languages[0]
    asked, lexemes_of = asked_lexemes(question, *languages), _lexemes_of(*_names_of(languages))
    written = {word for word, _ in tokens(question, language)}
    found = [
        [each for each in (*lexemes_of(word), *_as_parts(word, language)) if each in asked]
        for word, _ in tokens(question, language, asked=True)
        if word in written
    ]
    names = {each for each, _ in _names(question, language)}
    names -= {each for lexemes in found for each in lexemes}
    return dict.fromkeys([*(tuple(each) for each in found if each), *((name,) for name in names)])


def is_part(lexeme: str) -> bool:
    """Whether a lexeme is of the end of a compound."""
    return lexeme.startswith(PART)


def is_function_word(lexeme: str) -> bool:
    """Whether a lexeme says nothing of what a text is about."""
    return lexeme.startswith(FUNCTION_WORD)


def _lexemes(read: Sequence[Token], languages: Sequence[Language]) -> list[Lexeme]:
    lexemes_of = _lexemes_of(*_names_of(languages))
    return [(lexeme, place) for word, place in read for lexeme in lexemes_of(word)]


def _parts(word: str, language: Language) -> Sequence[str]:
    """The stems of all ends of a word that may be a compound; few of them are words."""
    if not language.compounds or len(word) < MIN_HEAD + MIN_PART or not word.isalpha():
        return ()
    ends = range(MIN_HEAD, min(len(word), MAX_LETTERS) - MIN_PART + 1)
    return [lexeme for at in ends for lexeme in _as_parts(word[at:MAX_LETTERS], language)]


def _as_parts(word: str, language: Language) -> Sequence[str]:
    """The lexeme by which a word is found as the end of a compound, if it may be one."""
    if not language.compounds or len(word) < MIN_PART or word in language.function_words:
        return ()
    return (PART + stemmer_of(language.name)(word),)


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


def _names_of(languages: Sequence[Language]) -> list[str]:
    return [language.name for language in languages]


@cache
def _lexemes_of(*names: str) -> Callable[[str], Sequence[str]]:
    stems, function_words = [*map(stemmer_of, names)], language_of(names[0]).function_words

    @lru_cache(MAX_REMEMBERED)
    def lexemes_of(word: str) -> Sequence[str]:
        if word in function_words:
            return (FUNCTION_WORD + word,)
        return (*dict.fromkeys(stem(word[:MAX_LETTERS]) for stem in stems),)

    return lexemes_of
