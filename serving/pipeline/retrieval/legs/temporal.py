"""The leg of time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from serving.domain.breaker import POSTGRES
from serving.domain.budget import BY_MEANING
from serving.domain.errors import OverloadedError, UnavailableError
from serving.domain.items.period import MAX_MENTION
from serving.domain.items.records import ItemKind
from serving.domain.questions.named_times import NamedTimes
from serving.domain.questions.query import TimeRange
from serving.domain.ranking.ranked_list import Candidate, best_first
from serving.pipeline.retrieval.legs.leg import Leg, LegAnswer, LegRequest
from serving.ports.timeline import Timeline
from serving.ports.vector_index import WantedNeighbours

SAID_FIRST = 3
"""How many that were said at a time come before each that was said about it."""

ABOUT = "said about it"
"""`path` of candidates that mention the time."""


class TemporalLeg(Leg):
    """Finds the latest segments of the scope, or those of the times that the question names.

    Of a named time are the segments that were said then, and those whose text speaks of it. A
    question that names more than a time finds the nearest to it of what was said then.
    """

    name = "temporal"
    options = frozenset({"named_times"})
    projection = None
    dependency = POSTGRES
    by_meaning = False
    ranks_by_text = False
    needs_question = False

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    def is_at_hand(self, request: LegRequest) -> bool:
        return self._names_no_time(request)

    async def find(self, request: LegRequest) -> LegAnswer:
        depth = request.depth
        if self._names_no_time(request):
            return LegAnswer([])
        if not request.spec.named_times:
            latest = partial(self._timeline.latest, request.query.scope, depth)
            return LegAnswer(await request.ask(POSTGRES, latest))
        times = request.times()
        said, about = await asyncio.gather(self._said(times, request), self._about(times, request))
        return replace(said, candidates=_merged(said.candidates, about)[:depth])

    @staticmethod
    def _names_no_time(request: LegRequest) -> bool:
        return request.spec.named_times and not request.times().periods

    async def _said(self, times: NamedTimes, request: LegRequest) -> LegAnswer:
        nearest = None if times.alone else await _nearest(times, request)
        return nearest or LegAnswer(await self._latest(times, request))

    async def _latest(self, times: NamedTimes, request: LegRequest) -> list[Candidate]:
        scope = request.query.scope
        latest = partial(self._timeline.latest, earliest_first=times.earliest_first)
        within = [scope.within(TimeRange(each.begins, each.ends)) for each in times.periods]
        found = (request.ask(POSTGRES, partial(latest, each, request.depth)) for each in within)
        return _distinct(await asyncio.gather(*found))

    async def _about(self, times: NamedTimes, request: LegRequest) -> list[Candidate]:
        scope, depth, mentioning = request.query.scope, request.depth, self._timeline.mentioning
        named = [each for each in times.periods if each.length <= MAX_MENTION]
        found = (request.ask(POSTGRES, partial(mentioning, each, scope, depth)) for each in named)
        return _distinct(await asyncio.gather(*found))


async def _nearest(times: NamedTimes, request: LegRequest) -> LegAnswer | None:
    """What was said at these times and is nearest to the question; None without the index."""
    query, deadline = request.query, BY_MEANING.only(request.deadline)
    scopes = [query.scope.within(TimeRange(each.begins, each.ends)) for each in times.periods]
    wanted = partial(WantedNeighbours, ItemKind.SEGMENT, depth=request.depth, token=query.token)
    answers = (request.nearest(wanted(scope), deadline) for scope in scopes)
    try:
        async with asyncio.timeout(deadline.remaining()):
            found = await asyncio.gather(*answers)
    except (UnavailableError, OverloadedError, TimeoutError):
        return None
    nearest = _distinct([each.candidates for each in found])
    stale = any(each.stale for each in found)
    return LegAnswer(nearest, stale=stale) if nearest else None


def _distinct(found: Iterable[Sequence[Candidate]]) -> list[Candidate]:
    return best_first({each.item: each for several in found for each in several}.values())


def _merged(said: Sequence[Candidate], about: Sequence[Candidate]) -> Sequence[Candidate]:
    """What was said at a time, with what was said about it at every fourth place.

    The scores of two lists say nothing together: the place counts.
    """
    known = {each.item for each in said}
    others = [each._replace(path=ABOUT) for each in about if each.item not in known]
    if not others:
        return said
    places = [
        *((place + place // SAID_FIRST, each) for place, each in enumerate(said)),
        *((place * (SAID_FIRST + 1) + SAID_FIRST, each) for place, each in enumerate(others)),
    ]
    return best_first(each._replace(score=-float(place)) for place, each in places)
