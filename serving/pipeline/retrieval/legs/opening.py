"""The legs that find the same whatever the question: what is important, and what holds."""

from __future__ import annotations

from functools import partial

from serving.domain.breaker import POSTGRES
from serving.domain.items.records import Segment
from serving.domain.ranking.ranked_list import Candidate
from serving.domain.ranking.subjects import is_about_asker, told_of_oneself
from serving.pipeline.retrieval.holding import FactsAbout, Holding
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
        """Whether the question is about somebody else than who asks: then nothing is found."""
        return request.spec.about_asker and not is_about_asker(request.query.text)

    async def find(self, request: LegRequest) -> LegAnswer:
        if self.is_at_hand(request):
            return LegAnswer([])
        scope, of_asker = request.query.scope, request.spec.about_asker
        speakers = scope.filter.speakers
        facts_about: list[FactsAbout] = [(scope, speakers)] if speakers else []
        if not of_asker:
            facts_about.append((scope, ()))
        search = partial(self._holding.items, facts_about, scope)
        found = await request.ask(POSTGRES, search)
        if of_asker:
            facts = [each for each in found if not isinstance(each, Segment)]
            told = told_of_oneself([each for each in found if isinstance(each, Segment)])
            found = facts + told
        # Their times order neither facts nor statements before the others: the place counts.
        places = enumerate(found[: request.depth])
        return LegAnswer([Candidate(each.item, -float(place)) for place, each in places])
