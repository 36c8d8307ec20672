"""Signals: they reorder the candidates of the legs and never add one.

Each signal is a function in this module; a profile names it and gives it a weight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from serving.domain.items.instants import instant_of, microseconds
from serving.domain.items.period import Period
from serving.domain.items.records import Item, ItemId, Segment, time_of
from serving.domain.items.text import name_words, words_of_name
from serving.domain.ranking.ranked_list import Candidate, RankedList, best_first

SAID_AROUND = timedelta(days=3)
"""The maximum distance between the time that a question names and the time of an item. People
talk about an event in the days after it, and about a plan in the days before it."""


@dataclass(frozen=True, slots=True)
class Named:
    """The names in a question: words, in the form of `name_words`, and periods."""

    words: frozenset[str] = frozenset()
    periods: tuple[Period, ...] = ()

    @classmethod
    def of(cls, question: str, periods: tuple[Period, ...] = ()) -> Named:
        """The words of a question, with periods that the caller has extracted."""
        return cls(frozenset(name_words(question)), periods)


_NOTHING = Named()


class Traits(NamedTuple):
    """Signal inputs for an item from the index: its time, its speaker, its vector.

    `instant` is in microseconds since 1970; `stored` is float16 (dimension,), the vector of its
    first window, or None where that is on a device; `scale` is the `scale_of` its memory. Made by
    `of`, and by `traits_of` of the index.
    """

    item: ItemId
    instant: int
    speaker: str
    stored: NDArray[np.float16] | None = None
    scale: float = 1.0

    @classmethod
    def of(cls, item: Item) -> Traits:
        """The traits of a row."""
        speaker = item.speaker if isinstance(item, Segment) else ""
        return cls(item.item, microseconds(time_of(item)), speaker)

    @property
    def since(self) -> datetime:
        """When it was said or became true."""
        return instant_of(self.instant)

    @property
    def vector(self) -> NDArray[np.float32] | None:
        """The vector times the scale: float32 (dimension,)."""
        return None if self.stored is None else self.stored.astype(np.float32) * self.scale


class Known(NamedTuple):
    """The input of a signal: the item, what the question names, and the access count."""

    traits: Traits
    named: Named = _NOTHING
    shown: int = 0


def recency(known: Known) -> float:
    """The event time, or when the fact became true: seconds since 1970."""
    return known.traits.since.timestamp()


def access(known: Known) -> float:
    """The access count of the item."""
    return float(known.shown)


def speaker(known: Known) -> float | None:
    """1 if the question contains a word of the speaker's name; else None.

    Answers about a person were mostly said by that person.
    """
    return None if known.named.words.isdisjoint(words_of_name(known.traits.speaker)) else 1.0


def time(known: Known) -> float | None:
    """1 if the item is near a period that the question names; else None."""
    since = known.traits.since
    near = any(period.distance(since) <= SAID_AROUND for period in known.named.periods)
    return 1.0 if near else None


ACCESS = "access"
TIME = "time"
SIGNALS: Mapping[str, Callable[[Known], float | None]] = {
    "recency": recency,
    ACCESS: access,
    "speaker": speaker,
    TIME: time,
}


def ranked_by(signal: str, candidates: Sequence[Known]) -> RankedList:
    """Orders candidates by a signal, the largest value first; without a value they are left out."""
    value = SIGNALS[signal]
    valued = [(known.traits.item, value(known)) for known in candidates]
    ranked = best_first(Candidate(item, worth) for item, worth in valued if worth is not None)
    return RankedList(signal, tuple(ranked))
