"""What reorders candidates without ever bringing one: a list per signal over what the legs found.

A signal is one function here; a profile names it and gives it a weight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from serving.domain.ranking import Candidate, RankedList, best_first
from serving.domain.records import Item, Segment


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a candidate: its row, and how often it was shown."""

    item: Item
    shown: int


def recency(known: Known) -> float:
    """When it was said, or became true: seconds since 1970."""
    item = known.item
    since = item.event_time if isinstance(item, Segment) else item.begins
    return since.timestamp()


def access(known: Known) -> float:
    """How often it was shown."""
    return float(known.shown)


SIGNALS: Mapping[str, Callable[[Known], float]] = {"recency": recency, "access": access}


def ranked_by(signal: str, candidates: Sequence[Known]) -> RankedList:
    """Orders candidates by a signal, the largest first.

    Raises:
        KeyError: There is no such signal.
    """
    value = SIGNALS[signal]
    return RankedList(
        signal, tuple(best_first(Candidate(known.item.item, value(known)) for known in candidates))
    )
