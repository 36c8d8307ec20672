"""Which facts end the truth of which others.

A fact ends those that it names. One that holds for its subject and relation alone, as a
home does, ends those that began before it, whichever was stored first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TypeAlias

from serving.domain.records import Fact
from serving.domain.text import name_key
from serving.domain.validity import Closing, without_implied

Topic: TypeAlias = tuple[str, str]
"""The keys of a subject and of a relation."""

_Place: TypeAlias = tuple[datetime, datetime, str]


def topic_of(fact: Fact) -> Topic:
    """What a fact is about: its subject and relation, in whatever spelling."""
    return name_key(fact.subject), name_key(fact.relation)


def closings_of(facts: Iterable[Fact], closers: Sequence[Fact]) -> dict[str, tuple[Closing, ...]]:
    """What ends the truth of each of the facts, by their ids.

    Of a long succession a fact is left with its successor, and with later ones only as far
    as these were recorded before it, or stay when it is retracted. So a new value changes
    the fact that it follows and no older one.

    Args:
        facts: The facts of one tenant that are asked about.
        closers: All of its facts that may end one of them; others do no harm.
    """
    naming: defaultdict[str, list[Closing]] = defaultdict(list)
    for closer in closers:
        for id_ in {*closer.closes} - {closer.id}:
            naming[id_].append(_closing(closer))
    successions = _successions(closers)
    return {
        fact.id: without_implied(
            (*naming[fact.id], *_succession(fact, successions).after(_place(fact)))
        )
        for fact in facts
    }


def _closing(closer: Fact) -> Closing:
    return Closing(closer.id, closer.begins, closer.recorded_at, closer.retracted_at)


def _place(fact: Fact) -> _Place:
    """Where a fact is in the succession of its topic."""
    return fact.begins, fact.recorded_at, fact.id


class _Succession:
    """The facts that take turns in holding of a topic, and from each on all that matters."""

    def __init__(self, closers: Iterable[Fact] = ()) -> None:
        in_order = sorted(closers, key=_place)
        self._places = [_place(closer) for closer in in_order]
        self._from: list[tuple[Closing, ...]] = [()]
        for closer in reversed(in_order):
            self._from.append(without_implied((*self._from[-1], _closing(closer))))
        self._from.reverse()

    def after(self, place: _Place) -> tuple[Closing, ...]:
        """What those that follow a place end."""
        return self._from[bisect_right(self._places, place)]


_NOBODY = _Succession()


def _successions(closers: Iterable[Fact]) -> dict[Topic, _Succession]:
    by_topic: defaultdict[Topic, list[Fact]] = defaultdict(list)
    for closer in closers:
        if closer.single_valued:
            by_topic[topic_of(closer)].append(closer)
    return {topic: _Succession(of_topic) for topic, of_topic in by_topic.items()}


def _succession(fact: Fact, successions: dict[Topic, _Succession]) -> _Succession:
    return successions.get(topic_of(fact), _NOBODY) if successions else _NOBODY
