"""The leg of the facts that hold, first of those about the speakers that the filter names."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from serving.domain.items.records import ItemId
from serving.domain.ranking.ranked_list import Candidate
from serving.pipeline.retrieval.legs.leg import Leg, LegAnswer, LegRequest
from serving.ports.timeline import Timeline


class HoldingLeg(Leg):
    """Finds the facts that hold, whatever the question, the last to begin first.

    If the filter names speakers, as where a bot knows who calls, the facts about them come before
    all others.
    """

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
        scope = request.query.scope
        search = partial(self._timeline.holding, scope, request.depth)
        found = await request.ask("words", search)
        if speakers := scope.filter.speakers:
            about = await request.ask("words", partial(search, entities=speakers))
            found = _in_order(dict.fromkeys(each.item for each in (*about, *found)))
        return LegAnswer(found[: request.depth])


def _in_order(items: Iterable[ItemId]) -> list[Candidate]:
    """Candidates of two lists: their times order neither before the other, and the place counts."""
    return [Candidate(item, -float(place)) for place, item in enumerate(items)]
