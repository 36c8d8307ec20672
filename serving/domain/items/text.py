"""The forms of texts and names for embedding, matching and filtering."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

from serving.domain.items.records import Item, Segment
from serving.domain.languages import ENGLISH
from serving.domain.words.scripts import MARKS
from serving.domain.words.spelled import with_spelled_words

WORD = re.compile(f"\\w[\\w{MARKS}\U000e0100-\U000e01ef\u200c\u200d]*")
"""A word of any script: letters, digits and underscores, with the marks of its letters."""

# Keyboards put them in the place of the plain ones, or the other way round.
_PLAIN = dict.fromkeys(map(ord, "\u2018\u2019\u02bc\uff07"), "'") | dict.fromkeys(
    map(ord, "\u2010\u2011"), "-"
)

# Latin, full-width and Arabic question marks, unless a quotation ends right after them.
_ASKED = re.compile("[?\uff1f\u061f]++(?![\"'\u201d\u2019)])")
_WORD = re.compile(r"\w")


def text_of(item: Item, quotation_mark: str = "") -> str:
    """The text of an item: "title. speaker: text", or the sentence of a fact."""
    if not isinstance(item, Segment):
        return item.statement
    title = f"{item.title}. " if item.title else ""
    if not item.speaker:
        return f"{title}{item.text}"
    return f"{title}{item.speaker}: {quotation_mark}{item.text}{quotation_mark}"


def text_to_embed(item: Item) -> str:
    """The text that is embedded for an item, with what was said in quotation marks.

    A word that is spelled ("n o v a k") is as it is written.
    """
    return with_spelled_words(text_of(item, '"'))


MAX_CONTEXT_CHARS = 500
"""The end of a turn that is the context of the next, so that both fit in a window."""


def text_in_context(previous: Segment, segment: Segment) -> str:
    """The text that is embedded for a segment together with the turn before it."""
    before = replace(previous, text=previous.text[-MAX_CONTEXT_CHARS:])
    return f"{text_to_embed(before)} {text_to_embed(segment)}"


MAX_MENTIONS = 50
"""An entity that more segments mention relates none of them to another."""

MAX_NAMES_SHOWN = 4
"""The shared entities that the path of a related segment names."""

NAMED_SHARE = 0.6
"""The share of the words of a name that a question must contain to name it."""


def name_key(name: str) -> str:
    """The identity of a name: names with one key are one, and no others.

    Only case, white space, the composition of characters and the form of an apostrophe or a hyphen
    do not count: "José" is one name however its accent is encoded, and so are "Mary  Ann" and "mary
    ann", or "O'Hara" as a keyboard and as a typesetter writes it. "j.doe" and "j-doe", "C#"
    and "C++", or names that differ by a vowel sign, are two. What erases, filters, closes facts or
    joins mentions compares these keys; `name_words` recognizes names.

    Source:
        Unicode Standard, section 3.13.5, canonical caseless matching (D145).
    """
    if not name.isascii():
        folded = unicodedata.normalize("NFD", name).casefold()
        plain = unicodedata.normalize("NFC", folded).translate(_PLAIN)
        return " ".join(plain.split())
    return " ".join(name.lower().split())


def name_words(text: str) -> tuple[str, ...]:
    """The words by which names are recognized, without case, punctuation and the possessive.

    Different names may have the same words, so nothing is erased, filtered or closed by them. A
    text without a letter or digit, such as an emoji, is its own word.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    return tuple(WORD.findall(ENGLISH.possessive.sub("", folded)) or folded.split())


words_of_name = lru_cache(maxsize=4096)(name_words)
"""`name_words` of a stored name, of which the same come again and again."""


def words_to_name_by(question: str) -> frozenset[str]:
    """The words of a question to match names with, each with and without a final s."""
    words = name_words(question)
    return frozenset(form for word in words for form in (word, f"{word}s", word.removesuffix("s")))


def names_entity(words: frozenset[str], name: str) -> bool:
    """Whether a question names an entity."""
    of_name = words_of_name(name)
    return sum(word in words for word in of_name) >= NAMED_SHARE * len(of_name)


MAX_QUESTIONS = 4
"""Each question is embedded and searched separately; further ones stay in the last part."""


QUESTION_MARKS = "?\uff1f\u061f"
"""Nothing else tells a question in every language."""


def questions_of(text: str) -> tuple[str, ...]:
    """Splits a text into its questions, each with the text before it.

    Returns the whole text if it has one question. Only question marks separate questions,
    since nothing else does so in every language.
    """
    marks = [0, *(mark.end() for mark in _ASKED.finditer(text))]
    ends = [end for start, end in pairwise(marks) if _WORD.search(text, start, end)]
    bounds = [0, *ends[:-1][: MAX_QUESTIONS - 1], len(text)]
    return tuple(text[start:end].strip() for start, end in pairwise(bounds))
