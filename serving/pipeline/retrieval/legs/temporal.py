"""The leg of time."""

from __future__ import annotations

import asyncio

from serving.domain.questions.query import Scope, TimeRange
from serving.domain.ranking.ranked_list import best_first
from serving.pipeline.retrieval.legs.leg import Leg, LegAnswer, LegRequest
from serving.ports.access import Timeline


class TemporalLeg(Leg):
    """Finds the latest segments of the scope, or of the times that the question names."""

    name = "temporal"
    options = frozenset({"named_times"})
    projection = None
    dependency = "words"

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    async def find(self, request: LegRequest) -> LegAnswer:
        depth = request.depth
        scopes, earliest_first = self._scopes(request)
        found = await asyncio.gather(
            *(
                self._timeline.latest(scope, depth, request.deadline, earliest_first=earliest_first)
                for scope in scopes
            )
        )
        candidates = {candidate.item: candidate for each in found for candidate in each}
        return LegAnswer(best_first(candidates.values())[:depth])

    def _scopes(self, request: LegRequest) -> tuple[list[Scope], bool]:
        scope = request.query.scope
        if not request.spec.named_times:
            return [scope], False
        times = request.times()
        within = [scope.within(TimeRange(each.begins, each.ends)) for each in times.periods]
        return within, times.earliest_first
