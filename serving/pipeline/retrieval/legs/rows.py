"""The legs that read rows of PostgreSQL by one query. They are never stale."""

from __future__ import annotations

from serving.domain.ranking.ranked_list import above_floor
from serving.pipeline.retrieval.legs.leg import Leg, LegAnswer, LegRequest, require_text
from serving.ports.access import Timeline
from serving.ports.words import LexicalSearch

MIN_IMPORTANCE = 0.8
"""Without a floor of the profile; a segment without an importance has 0.5."""


class LexicalLeg(Leg):
    """Finds segments by their words."""

    name = "lexical"
    options = frozenset({"floor", "words"})
    projection = None
    dependency = "words"
    finds_sensitive = True

    def __init__(self, lexical: LexicalSearch) -> None:
        self._lexical = lexical

    async def find(self, request: LegRequest) -> LegAnswer:
        require_text(request.query)
        found = await self._lexical.search(
            request.query, request.spec.words, request.depth, request.limit, request.deadline
        )
        return LegAnswer(*above_floor(found, request.spec.floor))


class ImportantLeg(Leg):
    """Finds the most important segments, whatever the question."""

    name = "important"
    options = frozenset({"floor"})
    projection = None
    dependency = "words"
    needs_question = False

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    async def find(self, request: LegRequest) -> LegAnswer:
        scope, floor = request.query.scope, request.spec.floor
        least = MIN_IMPORTANCE if floor is None else floor
        return LegAnswer(
            await self._timeline.important(scope, least, request.depth, request.deadline)
        )


class HoldingLeg(Leg):
    """Finds the facts that hold, the last to begin first, whatever the question."""

    name = "holding"
    options = frozenset()
    projection = None
    dependency = "words"
    needs_question = False

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    async def find(self, request: LegRequest) -> LegAnswer:
        scope = request.query.scope
        return LegAnswer(await self._timeline.holding(scope, request.depth, request.deadline))
