"""The leg of what holds, first about the speakers that the filter names."""

from __future__ import annotations

from functools import partial

from serving.domain.breaker import POSTGRES
from serving.domain.items.records import Item, Segment
from serving.domain.ranking.ranked_list import Candidate
from serving.domain.ranking.subjects import is_about_asker, told_of_oneself
from serving.pipeline.retrieval.holding import FactsAbout, Holding
from serving.pipeline.retrieval.legs.leg import Leg, LegAnswer, LegRequest


class HoldingLeg(Leg):
    """Finds the facts that hold and the newest statements in turn, whatever the question.

    If the filter names speakers, as where a bot knows who calls, the facts about them come before
    all others. With `about_asker` it answers "What do you know about me?" alone: by these facts,
    and by what speakers have told of themselves.
    """

    name = "holding"
    options = frozenset({"about_asker"})
    projection = None
    dependency = POSTGRES
    by_meaning = False
    ranks_by_text = False
    needs_question = False

    def __init__(self, holding: Holding) -> None:
        self._holding = holding

    def is_at_hand(self, request: LegRequest) -> bool:
        return self._is_about_another(request)

    async def find(self, request: LegRequest) -> LegAnswer:
        if self._is_about_another(request):
            return LegAnswer([])
        scope, of_asker = request.query.scope, request.spec.about_asker
        speakers = scope.filter.speakers
        facts_about: list[FactsAbout] = [(scope, speakers)] if speakers else []
        if not of_asker:
            facts_about.append((scope, ()))
        search = partial(self._holding.items, facts_about, scope)
        found = await request.ask(POSTGRES, search)
        if of_asker:
            found = _of_asker(found)
        # Their times order neither facts nor statements before the others: the place counts.
        places = enumerate(found[: request.depth])
        return LegAnswer([Candidate(each.item, -float(place)) for place, each in places])

    @staticmethod
    def _is_about_another(request: LegRequest) -> bool:
        return request.spec.about_asker and not is_about_asker(request.query.text)


def _of_asker(found: list[Item]) -> list[Item]:
    """The facts, and after them what speakers have told of themselves."""
    facts = [each for each in found if not isinstance(each, Segment)]
    return facts + told_of_oneself([each for each in found if isinstance(each, Segment)])
