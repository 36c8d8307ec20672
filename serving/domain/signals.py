"""What reorders candidates without ever bringing one: a list per signal over what the legs found.

A signal is one function here; a profile names it and gives it a weight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from serving.domain.ranking import Candidate, RankedList, best_first
from serving.domain.records import Item, Segment
from serving.domain.text import name_key


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a candidate: its row, the question's words, and how often it was shown."""

    item: Item
    asked: frozenset[str] = frozenset()
    shown: int = 0


def words_asked(question: str) -> frozenset[str]:
    """The words of a question, written as those of names are compared."""
    return frozenset(name_key(question).split())


def recency(known: Known) -> float:
    """When it was said, or became true: seconds since 1970."""
    item = known.item
    since = item.event_time if isinstance(item, Segment) else item.begins
    return since.timestamp()


def access(known: Known) -> float:
    """How often it was shown."""
    return float(known.shown)


def speaker(known: Known) -> float | None:
    """Whether the question names who said it, by any word of the name; else it has no place.

    What is asked about a person was mostly said by the person.
    """
    item = known.item
    if not isinstance(item, Segment) or known.asked.isdisjoint(name_key(item.speaker).split()):
        return None
    return 1.0


ACCESS = "access"
SIGNALS: Mapping[str, Callable[[Known], float | None]] = {
    "recency": recency,
    ACCESS: access,
    "speaker": speaker,
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
