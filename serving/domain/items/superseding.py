"""The rule by which facts close other facts.

A fact closes the facts that it names. A single-valued fact, such as "lives in", closes the
facts of the same subject and relation that began earlier, in whatever order they were stored.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TypeAlias

from serving.domain.items.records import Fact
from serving.domain.items.text import name_key
from serving.domain.items.validity import Closing, without_implied

Topic: TypeAlias = tuple[str, str]
"""The keys of a subject and of a relation."""

_Place: TypeAlias = tuple[datetime, datetime, str]


def topic_of(fact: Fact) -> Topic:
    """The topic of a fact: its subject and relation, independent of spelling."""
    return name_key(fact.subject), name_key(fact.relation)


def closings_of(facts: Iterable[Fact], closers: Sequence[Fact]) -> dict[str, tuple[Closing, ...]]:
    """The closings of each fact, by fact id.

    In a long succession a fact keeps the closing by its direct successor. It keeps a later
    one only if that was recorded earlier, or remains when the successor is retracted. So a
    new value changes only the fact that it follows. `closers` are all facts of the tenant that may
    close one of its `facts`; more do no harm.
    """
    naming: defaultdict[str, list[Closing]] = defaultdict(list)
    for closer in closers:
        for id_ in {*closer.closes} - {closer.id}:
            naming[id_].append(_closing(closer))
    successions = _successions(closers)
    closings = {}
    for fact in facts:
        succession = successions.get(topic_of(fact)) if successions else None
        later = succession.after(_place(fact)) if succession else ()
        closings[fact.id] = without_implied((*naming[fact.id], *later))
    return closings


def _closing(closer: Fact) -> Closing:
    return Closing(closer.id, closer.begins, closer.recorded_at, closer.retracted_at)


def _place(fact: Fact) -> _Place:
    """The position of a fact in the succession of its topic."""
    return fact.begins, fact.recorded_at, fact.id


class _Succession:
    """The single-valued facts of a topic in order, with the closings that follow each position."""

    def __init__(self, closers: Iterable[Fact]) -> None:
        in_order = sorted(closers, key=_place)
        self._places = [_place(closer) for closer in in_order]
        self._from: list[tuple[Closing, ...]] = [()]
        for closer in reversed(in_order):
            self._from.append(without_implied((*self._from[-1], _closing(closer))))
        self._from.reverse()

    def after(self, place: _Place) -> tuple[Closing, ...]:
        """The closings by facts after a position."""
        return self._from[bisect_right(self._places, place)]


def _successions(closers: Iterable[Fact]) -> dict[Topic, _Succession]:
    by_topic: defaultdict[Topic, list[Fact]] = defaultdict(list)
    for closer in closers:
        if closer.single_valued:
            by_topic[topic_of(closer)].append(closer)
    return {topic: _Succession(of_topic) for topic, of_topic in by_topic.items()}
