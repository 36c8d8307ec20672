"""The leg of what holds, first about the speakers that the filter names."""

from __future__ import annotations

from functools import partial

from serving.domain.breaker import POSTGRES
from serving.domain.ranking.ranked_list import Candidate
from serving.pipeline.retrieval.holding import FactsAbout, Holding
from serving.pipeline.retrieval.legs.leg import Leg, LegAnswer, LegRequest


class HoldingLeg(Leg):
    """Finds the facts that hold and the newest statements in turn, whatever the question.

    If the filter names speakers, as where a bot knows who calls, the facts about them come before
    all others.
    """

    name = "holding"
    options = frozenset()
    projection = None
    dependency = POSTGRES
    by_meaning = False
    ranks_by_text = False
    needs_question = False

    def __init__(self, holding: Holding) -> None:
        self._holding = holding

    async def find(self, request: LegRequest) -> LegAnswer:
        scope = request.query.scope
        speakers = scope.filter.speakers
        facts_about: list[FactsAbout] = [(scope, speakers)] if speakers else []
        search = partial(self._holding.items, [*facts_about, (scope, ())], scope)
        found = await request.ask(POSTGRES, search)
        # Their times order neither facts nor statements before the others: the place counts.
        places = enumerate(found[: request.depth])
        return LegAnswer([Candidate(each.item, -float(place)) for place, each in places])
