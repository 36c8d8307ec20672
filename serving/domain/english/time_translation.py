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
    return _Translation.of(language.name).of_text(read) if language.times else text


def language_of_times(text: str) -> Language:
    """The language of a text by its script or its words, of those whose times are known."""
    if not text.isascii():
        if _KANA.search(text):
            return language_of("japanese")
        if _HAN.search(text):
            return language_of("chinese")
    return languages.language_of_times(frozenset(words_in(text.casefold())))


class _Translation:
    """The times of a language in English."""

    def __init__(self, language: Language) -> None:
        self._language = language
        phrases = "|".join(map(re.escape, sorted(language.times, key=len, reverse=True)))
        word = rf"[\w{MARKS}]"
        if language.name not in _UNSPACED:
            phrases, word = rf"(?<!{word})(?:{phrases})(?!{word})", rf"{word}+"
        self._token = re.compile(f"(?P<phrase>{phrases})|{_NUMBER}|(?P<word>{word})|{_SIGN}")

    @staticmethod
    @cache
    def of(name: str) -> _Translation:
        return _Translation(language_of(name))

    def of_text(self, text: str) -> str:
        text = self._language.folded(text)
        text = _DAY_FIRST.sub(lambda day: f"{day[1]:0>2}.{day[2]:0>2}.{day[3] or ''}", text)
        text = " ".join(map(self._in_english, self._token.finditer(text)))
        for pattern, replacement in self._language.time_rules:
            text = pattern.sub(replacement, text)
        return text

    def _in_english(self, token: re.Match[str]) -> str:
        word = token[0]
        match token.lastgroup:
            case "phrase":
                return self._language.times[word]
            case "word":
                return self._language.digits.get(word, OTHER)
            case "mark":
                return OTHER
            case _:
                return word
