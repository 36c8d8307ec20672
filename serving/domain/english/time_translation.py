"""Times in other languages, put into the English that the grammar reads.

A language has its words of times with those of English, and rules that bring these into the order
of English (`serving/domain/languages`). What is not among them stays a word.
"""

from __future__ import annotations

import re
from functools import cache

from serving.domain import languages
from serving.domain.languages import Language, language_of
from serving.domain.words.normal_form import normal_form
from serving.domain.words.scripts import MARKS, words_in

OTHER = "*"
"""Stands for words that are of no time: it ends one, as other words do in English."""

_KANA = re.compile("[\u3040-\u30ff]")
_HAN = re.compile("[\u4e00-\u9fff]")
_DAY_FIRST = re.compile(r"(?<![\d/.])(\d{1,2})/(\d{1,2})(?:/(\d{4}|\d\d))?(?![\d/])")
_NUMBER = r"(?P<number>\d+(?:[.:-]\d+)*)"
_SIGN = r"(?P<sign>[.,;:!?–-])|(?P<mark>\S)"
_UNSPACED = ("chinese", "japanese")


def in_english(text: str) -> str:
    """The text if it is in English or names no time; otherwise its times in English."""
    read = normal_form(text)
    language = language_of_times(read)
    if not language.times:
        return text
    read = language.folded(read)
    read = _DAY_FIRST.sub(lambda day: f"{day[1]:0>2}.{day[2]:0>2}.{day[3] or ''}", read)
    tokens = _token_of(language.name).finditer(read)
    read = " ".join(_in_english(token, language) for token in tokens)
    for pattern, replacement in language.time_rules:
        read = pattern.sub(replacement, read)
    return read


def language_of_times(text: str) -> Language:
    """The language of a text by its script or its words, of those whose times are known."""
    if not text.isascii():
        if _KANA.search(text):
            return language_of("japanese")
        if _HAN.search(text):
            return language_of("chinese")
    return languages.language_of_times(frozenset(words_in(text.casefold())))


@cache
def _token_of(name: str) -> re.Pattern[str]:
    """A phrase, a number, a word or a sign of a language."""
    phrases = "|".join(map(re.escape, sorted(language_of(name).times, key=len, reverse=True)))
    word = rf"[\w{MARKS}]"
    if name not in _UNSPACED:
        phrases, word = rf"(?<!{word})(?:{phrases})(?!{word})", rf"{word}+"
    return re.compile(f"(?P<phrase>{phrases})|{_NUMBER}|(?P<word>{word})|{_SIGN}")


def _in_english(token: re.Match[str], language: Language) -> str:
    word = token[0]
    match token.lastgroup:
        case "phrase":
            return language.times[word]
        case "word":
            return language.digits.get(word, OTHER)
        case "mark":
            return OTHER
        case _:
            return word
