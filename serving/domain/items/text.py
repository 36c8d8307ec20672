"""The forms of texts and names for embedding, matching and filtering."""

from __future__ import annotations

import re
import unicodedata
from enum import StrEnum
from itertools import pairwise

from serving.domain.items.records import Item, Segment
from serving.domain.languages import ENGLISH

_NOT_IN_A_NAME = re.compile(r"[^\w]+", re.UNICODE)
# Latin, full-width and Arabic question marks, unless a quotation ends right after them.
_ASKED = re.compile("[?\uff1f\u061f]++(?![\"'\u201d\u2019)])")
_WORD = re.compile(r"\w")


class TextForm(StrEnum):
    """How a spoken text is written for the encoder. Vectors of different forms do not compare.

    docs/ranking.md compares their quality.
    """

    QUOTED = "quoted"
    """`Mel: "We sailed to Goa."`"""
    PLAIN = "plain"
    """`Mel: We sailed to Goa.`"""


def text_of(item: Item) -> str:
    """The text of an item: "title. speaker: text", or the sentence of a fact."""
    return text_to_embed(item, TextForm.PLAIN)


def text_to_embed(item: Item, form: TextForm) -> str:
    """The text that is embedded for an item; `form` matters only if it has a speaker."""
    if not isinstance(item, Segment):
        return item.statement
    title = f"{item.title}. " if item.title else ""
    if not item.speaker:
        return f"{title}{item.text}"
    said = f'"{item.text}"' if form is TextForm.QUOTED else item.text
    return f"{title}{item.speaker}: {said}"


MAX_MENTIONS = 50
"""An entity that more segments mention relates none of them to another."""

MAX_NAMES_SHOWN = 4
"""The shared entities that the path of a related segment names."""

NAMED_SHARE = 0.6
"""The share of the words of a name that a question must contain to name it."""


def words_to_name_by(question: str) -> frozenset[str]:
    """The words of a question to match names with, each with and without a final s."""
    words = name_key(question).split()
    return frozenset(form for word in words for form in (word, f"{word}s", word.removesuffix("s")))


def names_entity(words: frozenset[str], key: str) -> bool:
    """Whether a question names an entity.

    Args:
        words: The words of the question, from `words_to_name_by`.
        key: The entity's `name_key`.
    """
    of_name = key.split()
    return sum(word in words for word in of_name) >= NAMED_SHARE * len(of_name)


def name_key(name: str) -> str:
    """Normalises a name to a key that all its spellings share.

    Case, Unicode composition, punctuation and the English possessive are ignored: `"Mary-Ann's"`
    and `"mary ann"` have the same key. A name without a letter or digit, such as an emoji, is
    its own key.
    """
    folded = unicodedata.normalize("NFKC", name).casefold().strip()
    words = _NOT_IN_A_NAME.sub(" ", ENGLISH.possessive.sub("", folded)).split()
    return " ".join(words or folded.split())


MAX_QUESTIONS = 4
"""Each question is embedded and searched separately; further ones stay in the last part."""


def questions_of(text: str) -> tuple[str, ...]:
    """Splits a text into its questions, each with the text before it.

    Returns the whole text if it has one question. Only question marks separate questions,
    since nothing else does so in every language.
    """
    marks = [0, *(mark.end() for mark in _ASKED.finditer(text))]
    ends = [end for start, end in pairwise(marks) if _WORD.search(text, start, end)]
    bounds = [0, *ends[:-1][: MAX_QUESTIONS - 1], len(text)]
    return tuple(text[start:end].strip() for start, end in pairwise(bounds))
