"""Whether English words speak of the past or of the future, by their verbs."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from itertools import pairwise

from serving.domain.english import time_words as words

_MIN_INFLECTED = 5
"""A shorter word in "ed" or "ing" is seldom an inflected verb: "bed", "ring"."""


_ADVERBS = frozenset({"all", "also", "always", "both", "never", "not", "now", "only", "still"})
_BEING = frozenset({"am", "are", "aren't", "i'm", "is", "isn't", "they're", "we're", "you're"})


class Tense(Enum):
    """Whether a sentence is about the past or the future."""

    PAST = "past"
    FUTURE = "future"


def tense_of(said: Sequence[str], usual: Tense) -> Tense | None:
    """Returns the tense of words in lower case, or None if their verbs do not tell.

    Args:
        said: The words of a sentence, or of a clause.
        usual: The future, if what was arranged in the past ("booked for Friday") is ahead.
    """
    if not words.FUTURE.isdisjoint(said) or _has_progressive(said):
        return Tense.FUTURE
    if usual is Tense.FUTURE and not words.ARRANGING.isdisjoint(said):
        return Tense.FUTURE
    return Tense.PAST if is_past(said) else None


def is_past(said: Sequence[str]) -> bool:
    """Whether a word is a verb of the past, and none speaks of the future: not "is closed"."""
    said = [word for word in said if word not in _ADVERBS]
    return words.FUTURE.isdisjoint(said) and any(
        (word in words.PAST or (_is_inflected(word, "ed") and word != "hundred"))
        and before not in _BEING
        for before, word in pairwise(["", *said])
    )


def _has_progressive(said: Sequence[str]) -> bool:
    """Whether a form of "to be" has a verb in "ing" within three words, or "do I have" is."""
    for place, word in enumerate(said):
        near = said[place + 1 : place + 4]
        if word in ("am", "are", "is", "i'm", "we're") and any(
            _is_inflected(each, "ing") and each not in ("morning", "evening") for each in near
        ):
            return True
        if word in ("do", "does") and "have" in near:
            return True
    return False


def _is_inflected(word: str, ending: str) -> bool:
    return len(word) >= _MIN_INFLECTED and word.endswith(ending)
