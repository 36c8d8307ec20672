"""The leg of words."""

from __future__ import annotations

from functools import partial

from serving.domain.breaker import POSTGRES
from serving.domain.ranking.ranked_list import above_floor
from serving.pipeline.retrieval.legs.leg import Leg, LegAnswer, LegRequest, require_text
from serving.ports.words import LexicalSearch


class LexicalLeg(Leg):
    """Finds segments by their words.

    It reads PostgreSQL itself, or what memory has of all that is known to be written, so it is
    never stale.
    """

    name = "lexical"
    options = frozenset({"floor", "words"})
    projection = None
    dependency = POSTGRES
    by_meaning = False
    ranks_by_text = True
    finds_sensitive = True

    def __init__(self, lexical: LexicalSearch) -> None:
        self._lexical = lexical

    def find_in_memory(self, request: LegRequest) -> LegAnswer | None:
        query, spec = request.query, request.spec
        require_text(query)
        if request.view is None:
            return None
        found = request.view.find_by_words(query, spec.words, request.depth)
        if found is None:
            return None
        return LegAnswer(*above_floor(found, spec.floor), in_memory=True)

    async def find(self, request: LegRequest) -> LegAnswer:
        query, spec = request.query, request.spec
        require_text(query)
        enough = request.profile.limit
        search = partial(self._lexical.search, query, spec.words, request.depth, enough)
        found = await request.ask(POSTGRES, search)
        return LegAnswer(*above_floor(found, spec.floor))
