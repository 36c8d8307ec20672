"""What reorders candidates without ever bringing one: a list per signal over what the legs found.

A signal is one function here; a profile names it and gives it a weight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from serving.domain.period import Period
from serving.domain.ranking import Candidate, RankedList, best_first
from serving.domain.records import Item, Segment
from serving.domain.text import name_key

SAID_AROUND = timedelta(days=3)
"""How far from the time that a question names it may have been said: what happened on a day is
told in the days after, what is planned for it in those before."""


@dataclass(frozen=True, slots=True)
class Named:
    """What a question names: words, written as those of names are compared, and times."""

    words: frozenset[str] = frozenset()
    periods: tuple[Period, ...] = ()

    @classmethod
    def of(cls, question: str, periods: tuple[Period, ...] = ()) -> Named:
        """What a question names, of whose words others have read the periods."""
        return cls(frozenset(name_key(question).split()), periods)


_NOTHING = Named()


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a candidate: its row, what the question names, how often it was shown."""

    item: Item
    named: Named = _NOTHING
    shown: int = 0


def recency(known: Known) -> float:
    """When it was said, or became true: seconds since 1970."""
    return _since(known.item).timestamp()


def access(known: Known) -> float:
    """How often it was shown."""
    return float(known.shown)


def speaker(known: Known) -> float | None:
    """Whether the question names who said it, by any word of the name; else it has no place.

    What is asked about a person was mostly said by the person.
    """
    item = known.item
    words = name_key(item.speaker).split() if isinstance(item, Segment) else ()
    return None if known.named.words.isdisjoint(words) else 1.0


def time(known: Known) -> float | None:
    """Whether it was said, or became true, around a time that the question names."""
    since = _since(known.item)
    near = any(period.distance(since) <= SAID_AROUND for period in known.named.periods)
    return 1.0 if near else None


def _since(item: Item) -> datetime:
    return item.event_time if isinstance(item, Segment) else item.begins


ACCESS = "access"
TIME = "time"
SIGNALS: Mapping[str, Callable[[Known], float | None]] = {
    "recency": recency,
    ACCESS: access,
    "speaker": speaker,
    TIME: time,
}


def ranked_by(signal: str, candidates: Sequence[Known]) -> RankedList:
    """Orders candidates by a signal, the largest first; equal ones share a rank.

    What the signal says nothing of is left out.

    Raises:
        KeyError: There is no such signal.
    """
    value = SIGNALS[signal]
    valued = [(known.item.item, value(known)) for known in candidates]
    ranked = best_first(Candidate(item, worth) for item, worth in valued if worth is not None)
    return RankedList(signal, tuple(ranked), ties_share=True)
