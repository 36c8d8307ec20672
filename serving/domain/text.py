"""How texts and names are written before they are embedded, matched or filtered."""

from __future__ import annotations

import re
import unicodedata
from enum import StrEnum
from itertools import pairwise

from serving.domain.records import Item, Segment

_NOT_IN_A_NAME = re.compile(r"[^\w]+", re.UNICODE)
# The question marks of Latin, full-width and Arabic script, unless they are quoted.
_ASKED = re.compile("[?\uff1f\u061f]++(?![\"'\u201d\u2019)])")
_WORD = re.compile(r"\w")


class TextForm(StrEnum):
    """How what somebody said is written for an encoder. Vectors of different forms are apart.

    docs/ranking.md has what each is worth.
    """

    QUOTED = "quoted"
    """`Mel: "We sailed to Goa."`"""
    PLAIN = "plain"
    """`Mel: We sailed to Goa.`"""


def text_of(item: Item) -> str:
    """Writes an item as one text: "title. speaker: text", or a fact's sentence."""
    return text_to_embed(item, TextForm.PLAIN)


def text_to_embed(item: Item, form: TextForm) -> str:
    """Writes an item the way it is embedded; what nobody said is the same in every form."""
    if not isinstance(item, Segment):
        return item.statement
    title = f"{item.title}. " if item.title else ""
    if not item.speaker:
        return f"{title}{item.text}"
    said = f'"{item.text}"' if form is TextForm.QUOTED else item.text
    return f"{title}{item.speaker}: {said}"


NAMED_SHARE = 0.6
"""The share of a name's words that a question must have to name it."""


def words_to_name_by(question: str) -> frozenset[str]:
    """The words by which a question names entities, each with and without an s at its end."""
    words = name_key(question).split()
    return frozenset(form for word in words for form in (word, f"{word}s", word.removesuffix("s")))


def names_entity(words: frozenset[str], key: str) -> bool:
    """Whether a question names an entity.

    Args:
        words: Those of the question, by `words_to_name_by`.
        key: The entity's `name_key`.
    """
    of_name = key.split()
    return sum(word in words for word in of_name) >= NAMED_SHARE * len(of_name)


def name_key(name: str) -> str:
    """Folds a name to the key under which all its spellings meet.

    Case, accents' encoding, punctuation and the possessive 's do not count:
    `"Mary-Ann's"` and `"mary ann"` have the same key. A name without any
    letter or digit, such as an emoji, is its own key.
    """
    folded = unicodedata.normalize("NFKC", name).casefold().strip()
    words = _NOT_IN_A_NAME.sub(" ", re.sub(r"['’]s\b", "", folded)).split()
    return " ".join(words or folded.split())


MOST_QUESTIONS = 4
"""Each is embedded and looked up by itself; what comes after stays with the last."""


def questions_of(text: str) -> tuple[str, ...]:
    """The questions of a text, with what is said before each; the whole text, if it asks one.

    Only question marks tell questions apart: nothing else does in every language.
    """
    marks = [0, *(mark.end() for mark in _ASKED.finditer(text))]
    ends = [end for start, end in pairwise(marks) if _WORD.search(text, start, end)]
    bounds = [0, *ends[:-1][: MOST_QUESTIONS - 1], len(text)]
    return tuple(text[start:end].strip() for start, end in pairwise(bounds))
