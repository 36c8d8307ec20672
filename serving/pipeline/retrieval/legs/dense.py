"""The leg of meaning."""

from __future__ import annotations

import asyncio
from functools import partial

from serving.domain.breaker import POSTGRES
from serving.domain.items.records import ItemId, ItemKind
from serving.domain.ranking.leg_options import CandidatePool
from serving.domain.ranking.ranked_list import above_floor
from serving.domain.words.codes import has_codes
from serving.pipeline.retrieval.legs.leg import Leg, LegAnswer, LegRequest
from serving.ports.access_log import AccessLog
from serving.ports.vector_index import WantedNeighbours


class DenseLeg(Leg):
    """Finds segments by the similarity of their embeddings."""

    name = "dense"
    options = frozenset({"floor", "pool", "late_interaction"})
    projection = "embedding"
    dependency = "index"
    by_meaning = True
    ranks_by_text = True

    def __init__(self, access: AccessLog) -> None:
        self._access = access

    def is_at_hand(self, request: LegRequest) -> bool:
        return request.spec.pool is None and request.lookup.is_at_hand(ItemKind.SEGMENT)

    async def find(self, request: LegRequest) -> LegAnswer:
        """Finds the segments nearest to the question, of all or of a pool."""
        pool, only, lacking = request.spec.pool, None, ""
        if pool is not None:
            only, lacking = await self._members(pool, request)
        query, depth = request.query, request.depth
        # A token is like one of another code, whose letters are others.
        by_words = request.spec.late_interaction and not has_codes(query.text)
        floor = request.spec.floor
        least = (-1.0 if floor is None else floor) if by_words else None
        wanted = WantedNeighbours(
            ItemKind.SEGMENT, query.scope, depth, only, query.token, late_interaction=least
        )
        answer = await request.nearest(wanted)
        kept, below = above_floor(answer.candidates, floor)
        return LegAnswer(kept, below, answer.stale, answer.epoch, lacking, answer.unsearched)

    async def _members(self, pool: CandidatePool, request: LegRequest) -> tuple[set[ItemId], str]:
        """Returns the pool, and what it lacks because an upstream leg failed."""
        scope = request.query.scope
        recent, brought = await asyncio.gather(
            request.ask(
                POSTGRES, partial(self._access.recently_accessed, scope, pool.recently_accessed)
            ),
            request.found_before(pool.joined_by),
        )
        return {*recent, *brought.items}, "; ".join(brought.broken)
