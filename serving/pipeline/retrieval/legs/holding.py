"""The leg of the facts that hold."""

from __future__ import annotations

from functools import partial

from serving.pipeline.retrieval.legs.leg import Leg, LegAnswer, LegRequest
from serving.ports.timeline import Timeline


class HoldingLeg(Leg):
    """Finds the facts that hold, the last to begin first, whatever the question."""

    name = "holding"
    options = frozenset()
    projection = None
    dependency = "words"
    by_meaning = False
    ranks_by_text = False
    needs_question = False

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    async def find(self, request: LegRequest) -> LegAnswer:
        search = partial(self._timeline.holding, request.query.scope, request.depth)
        return LegAnswer(await request.ask("words", search))
