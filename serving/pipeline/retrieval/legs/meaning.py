"""The legs of meaning: of segments, of turns in their context, and of facts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

from serving.domain.breaker import POSTGRES
from serving.domain.items.records import ItemId, ItemKind, segment_id
from serving.domain.ranking.leg_options import CandidatePool
from serving.domain.ranking.profile import Yields
from serving.domain.ranking.ranked_list import Candidate, above_floor
from serving.domain.words.codes import has_codes
from serving.pipeline.retrieval.legs.leg import Leg, LegAnswer, LegRequest
from serving.ports.access_log import AccessLog
from serving.ports.vector_index import CONTEXT, IndexAnswer, VectorKind, WantedNeighbours


class _LegOfMeaning(Leg):
    """Finds what is nearest to the question among the vectors of one kind."""

    projection = "embedding"
    dependency = "index"
    by_meaning = True
    kind: ClassVar[VectorKind]

    def is_at_hand(self, request: LegRequest) -> bool:
        return request.lookup.is_at_hand(self.kind)

    async def find(self, request: LegRequest) -> LegAnswer:
        query = request.query
        wanted = WantedNeighbours(self.kind, query.scope, request.depth, token=query.token)
        return self._answer(request, await request.nearest(wanted))

    def _answer(self, request: LegRequest, found: IndexAnswer, lacking: str = "") -> LegAnswer:
        kept, below = above_floor(found.candidates, request.spec.floor)
        return LegAnswer(kept, below, found.stale, found.epoch, lacking, found.unsearched)


class DenseLeg(_LegOfMeaning):
    """Finds segments by the similarity of their embeddings, among all or in a pool."""

    name = "dense"
    options = frozenset({"floor", "pool", "late_interaction"})
    ranks_by_text = True
    kind = ItemKind.SEGMENT

    def __init__(self, access: AccessLog) -> None:
        self._access = access

    def is_at_hand(self, request: LegRequest) -> bool:
        return request.spec.pool is None and super().is_at_hand(request)

    async def find(self, request: LegRequest) -> LegAnswer:
        query, spec = request.query, request.spec
        only, lacking = None, ""
        if spec.pool is not None:
            only, lacking = await self._members(spec.pool, request)
        # A token is like one of another code, whose letters are others.
        by_words = spec.late_interaction and not has_codes(query.text)
        least = (-1.0 if spec.floor is None else spec.floor) if by_words else None
        wanted = WantedNeighbours(
            self.kind, query.scope, request.depth, only, query.token, late_interaction=least
        )
        return self._answer(request, await request.nearest(wanted), lacking)

    async def _members(self, pool: CandidatePool, request: LegRequest) -> tuple[set[ItemId], str]:
        """Returns the pool, and what it lacks because an upstream leg failed."""
        scope = request.query.scope
        recent, before = await asyncio.gather(
            request.ask(
                POSTGRES, partial(self._access.recently_accessed, scope, pool.recently_accessed)
            ),
            request.found_before(pool.joined_by),
        )
        return {*recent, *before.items}, before.lacking


class ContextLeg(_LegOfMeaning):
    """Finds turns by the similarity of their embeddings together with the turn before them.

    An answer such as "Before, then, and leave the time as it is" is near to a question only with
    what it answers.
    """

    name = "context"
    options = frozenset({"floor"})
    ranks_by_text = False
    kind = CONTEXT


class FactsLeg(_LegOfMeaning):
    """Finds facts by the similarity of their embeddings, or the segments that support them.

    A fact that no segment supports is found itself in any case.
    """

    name = "facts"
    options = frozenset({"floor", "yields"})
    ranks_by_text = False
    needs_facts = True
    kind = ItemKind.FACT

    def _answer(self, request: LegRequest, found: IndexAnswer, lacking: str = "") -> LegAnswer:
        answer = super()._answer(request, found, lacking)
        if request.spec.yields is not Yields.EVIDENCE:
            return answer
        evidence = evidence_in_order(answer.candidates, found)
        return replace(answer, candidates=evidence[: request.depth])


def evidence_in_order(facts: Sequence[Candidate], answer: IndexAnswer) -> list[Candidate]:
    """Replaces each fact by its evidence, strongest first; a segment keeps its best place.

    A fact that rests on no segment stands for itself.
    """
    facts_of: dict[ItemId, list[str]] = {}
    score: dict[ItemId, float] = {}
    for fact in facts:
        id_ = fact.item.id
        if id_ not in answer.evidence:
            facts_of[fact.item] = []
            score[fact.item] = fact.score
        for segment in answer.evidence.get(id_, ()):
            facts_of.setdefault(segment_id(segment), []).append(id_)
            score.setdefault(segment_id(segment), fact.score)
    return [Candidate(item, score[item], facts=tuple(names)) for item, names in facts_of.items()]
