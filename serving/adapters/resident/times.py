"""The segments of a tenant in memory by their times, and by the times that they speak of."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from operator import attrgetter
from typing import NamedTuple, TypeVar

from serving.adapters.resident.entities import Turn, visible_in
from serving.domain.items.instants import AFTER_ALL, BEFORE_ALL, microseconds
from serving.domain.items.period import Period
from serving.domain.questions.named_times import longest_about
from serving.domain.questions.query import Scope, TimeRange
from serving.domain.ranking.ranked_list import Candidate

MAX_ROWS = 4096
"""The most segments that are looked at for a question, which takes some milliseconds."""

_MICROSECOND = timedelta(microseconds=1)

T = TypeVar("T")

_time_of: Callable[[Turn], int] = attrgetter("at")


class _Mention(NamedTuple):
    """A time that a segment speaks of, in microseconds."""

    begins: int
    ends: int
    turn: Turn


_begin_of: Callable[[_Mention], int] = attrgetter("begins")


class Times:
    """The segments of a tenant, none of which is hidden, in the order of their times."""

    def __init__(self) -> None:
        self._turns: list[Turn] = []
        self._mentions: list[_Mention] = []

    def add(self, turn: Turn) -> None:
        """Adds a segment that is not here."""
        insort(self._turns, turn, key=_time_of)
        for each in turn.segment.mentions:
            mention = _Mention(microseconds(each.begins), microseconds(each.ends), turn)
            insort(self._mentions, mention, key=_begin_of)

    def remove(self, turn: Turn) -> None:
        """Removes a segment that is here, as it was added."""
        del self._turns[self._turns.index(turn, bisect_left(self._turns, turn.at, key=_time_of))]
        if turn.segment.mentions:
            self._mentions = [each for each in self._mentions if each.turn is not turn]

    def latest(self, scope: Scope, depth: int, *, earliest_first: bool) -> list[Candidate] | None:
        """Finds the latest segments of the scope, as `Timeline`; None if there are many to see."""
        times = scope.segment_filter.event_time
        first = BEFORE_ALL if times.start is None else microseconds(times.start)
        end = AFTER_ALL if times.end is None else microseconds(times.end)
        turns = _between(self._turns, first, end, _time_of)
        if turns is None:
            return None
        others = replace(scope.filter, event_time=TimeRange())
        return _best(turns, replace(scope, filter=others), depth, 1 if earliest_first else -1)

    def mentioning(self, period: Period, scope: Scope, depth: int) -> list[Candidate] | None:
        """Finds segments that speak of a period, as `Timeline`; None if there are many to see."""
        begins, ends = microseconds(period.begins), microseconds(period.ends)
        longest = longest_about(period) // _MICROSECOND
        mentions = _between(self._mentions, begins - longest, ends, _begin_of)
        if mentions is None:
            return None
        about = {
            each.turn
            for each in mentions
            if max(begins, each.begins) < min(ends, each.ends)
            and each.ends - each.begins <= longest
        }
        return _best(about, scope, depth, -1)


def _between(ordered: list[T], first: int, end: int, time_of: Callable[[T], int]) -> list[T] | None:
    """Returns those from one time on and before another; None if they are many to see."""
    begin, stop = (bisect_left(ordered, at, key=time_of) for at in (first, end))
    return None if stop - begin > MAX_ROWS else ordered[begin:stop]


def _best(turns: Iterable[Turn], scope: Scope, depth: int, sign: int) -> list[Candidate]:
    """The latest segments of the scope (`sign` -1) or the earliest (1); of equal times, by id."""
    visible = sorted(
        filter(visible_in(scope), turns), key=lambda turn: (sign * turn.at, turn.segment.id)
    )
    return [Candidate(each.segment.item, -sign * each.at / 1e6) for each in visible[:depth]]
