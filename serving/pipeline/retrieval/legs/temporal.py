"""The leg of time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from serving.domain.breaker import POSTGRES
from serving.domain.budget import BY_MEANING, Deadline
from serving.domain.errors import OverloadedError, UnavailableError
from serving.domain.items.period import MAX_MENTION, Period
from serving.domain.items.records import ItemKind
from serving.domain.questions.named_times import NamedTimes
from serving.domain.questions.query import Scope, TimeRange
from serving.domain.ranking.ranked_list import Candidate, best_first
from serving.pipeline.retrieval.legs.leg import Leg, LegAnswer, LegRequest
from serving.ports.resident_view import ResidentView
from serving.ports.timeline import Timeline
from serving.ports.vector_index import WantedNeighbours

SAID_FIRST = 3
"""The number of items said at a time before each that was said about it."""

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
        """Whether the question names no time, though one is needed: then nothing is found."""
        return request.spec.named_times and not request.times().periods

    async def find(self, request: LegRequest) -> LegAnswer:
        if self.is_at_hand(request):
            return LegAnswer([])
        if not request.spec.named_times:
            return await self._latest(request.query.scope, request, earliest_first=False)
        times = request.times()
        said, about = await asyncio.gather(self._said(times, request), self._about(times, request))
        return replace(
            said,
            candidates=_merged(said.candidates, about.candidates)[: request.depth],
            in_memory=said.in_memory and about.in_memory,
        )

    async def _said(self, times: NamedTimes, request: LegRequest) -> LegAnswer:
        nearest = None if times.alone else await _nearest(times, request)
        if nearest is not None:
            return nearest
        latest = partial(self._latest, request=request, earliest_first=times.earliest_first)
        return _joined(await asyncio.gather(*map(latest, _scopes(times, request))))

    async def _about(self, times: NamedTimes, request: LegRequest) -> LegAnswer:
        named = [each for each in times.periods if each.length <= MAX_MENTION]
        mentioning = partial(self._mentioning, request=request)
        return _joined(await asyncio.gather(*map(mentioning, named)))

    async def _latest(
        self, scope: Scope, request: LegRequest, *, earliest_first: bool
    ) -> LegAnswer:
        query, depth = replace(request.query, scope=scope), request.depth
        return await _asked(
            request,
            lambda view: view.latest(query, depth, earliest_first=earliest_first),
            partial(self._timeline.latest, scope, depth, earliest_first=earliest_first),
        )

    async def _mentioning(self, period: Period, request: LegRequest) -> LegAnswer:
        query, depth = request.query, request.depth
        return await _asked(
            request,
            lambda view: view.mentioning(period, query, depth),
            partial(self._timeline.mentioning, period, query.scope, depth),
        )


async def _asked(
    request: LegRequest,
    in_memory: Callable[[ResidentView], list[Candidate] | None],
    in_store: Callable[[Deadline], Awaitable[list[Candidate]]],
) -> LegAnswer:
    """The answer of memory, or of the store if memory has none."""
    found = None if request.view is None else in_memory(request.view)
    if found is not None:
        return LegAnswer(found, in_memory=True)
    return LegAnswer(await request.ask(POSTGRES, in_store))


async def _nearest(times: NamedTimes, request: LegRequest) -> LegAnswer | None:
    """The items said at these times that are nearest to the question; None without the index."""
    query, deadline = request.query, BY_MEANING.only(request.deadline)
    wanted = partial(WantedNeighbours, ItemKind.SEGMENT, depth=request.depth, token=query.token)
    answers = (request.nearest(wanted(scope), deadline) for scope in _scopes(times, request))
    try:
        async with asyncio.timeout(deadline.remaining()):
            found = await asyncio.gather(*answers)
    except (UnavailableError, OverloadedError, TimeoutError):
        return None
    nearest = _distinct([each.candidates for each in found])
    stale = any(each.stale for each in found)
    return LegAnswer(nearest, stale=stale) if nearest else None


def _scopes(times: NamedTimes, request: LegRequest) -> list[Scope]:
    """The scope of the question, restricted to each of the times."""
    scope = request.query.scope
    return [scope.within(TimeRange(each.begins, each.ends)) for each in times.periods]


def _joined(answers: Sequence[LegAnswer]) -> LegAnswer:
    found = _distinct([each.candidates for each in answers])
    return LegAnswer(found, in_memory=all(each.in_memory for each in answers))


def _distinct(found: Iterable[Sequence[Candidate]]) -> list[Candidate]:
    return best_first({each.item: each for several in found for each in several}.values())


def _merged(said: Sequence[Candidate], about: Sequence[Candidate]) -> Sequence[Candidate]:
    """The items said at a time, with those said about it at every fourth place.

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
