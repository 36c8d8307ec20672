"""The leg of what is important."""

from __future__ import annotations

from functools import partial

from serving.domain.breaker import POSTGRES
from serving.pipeline.retrieval.legs.leg import Leg, LegAnswer, LegRequest
from serving.ports.timeline import Timeline

MIN_IMPORTANCE = 0.8
"""Without a floor of the profile; a segment without an importance has 0.5."""


class ImportantLeg(Leg):
    """Finds the most important segments, whatever the question."""

    name = "important"
    options = frozenset({"floor"})
    projection = None
    dependency = POSTGRES
    by_meaning = False
    ranks_by_text = False
    needs_question = False

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    async def find(self, request: LegRequest) -> LegAnswer:
        floor = request.spec.floor
        least = MIN_IMPORTANCE if floor is None else floor
        search = partial(self._timeline.important, request.query.scope, least, request.depth)
        return LegAnswer(await request.ask(POSTGRES, search))
