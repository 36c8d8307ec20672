"""The legs by meaning: what is near to the question, as the index of its embedder has it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from serving.domain.items.records import ItemId, ItemKind, segment_id
from serving.domain.ranking.leg_options import CandidatePool
from serving.domain.ranking.profile import Yields
from serving.domain.ranking.ranked_list import Candidate, above_floor
from serving.pipeline.retrieval.legs.leg import Leg, LegAnswer, LegRequest
from serving.ports.access import AccessLog
from serving.ports.vector_index import CONTEXT, IndexAnswer, VectorKind, WantedNeighbours


class DenseLeg(Leg):
    """Finds segments by the similarity of their embeddings."""

    name = "dense"
    options = frozenset({"floor", "pool"})
    projection = "embedding"
    dependency = "index"

    def __init__(self, access: AccessLog) -> None:
        self._access = access

    async def find(self, request: LegRequest) -> LegAnswer:
        """Finds the segments nearest to the question, of all or of a pool."""
        pool, only, lacking = request.spec.pool, None, ""
        if pool is not None:
            only, lacking = await self._members(pool, request)
        return await _nearest(request, ItemKind.SEGMENT, only, lacking)

    async def _members(self, pool: CandidatePool, request: LegRequest) -> tuple[set[ItemId], str]:
        """Returns the pool, and what it lacks because an upstream leg failed."""
        scope = request.query.scope
        recent, brought = await asyncio.gather(
            self._access.recently_accessed(scope, pool.recently_accessed, request.deadline),
            request.found_before(pool.joined_by),
        )
        return {*recent, *brought.items}, "; ".join(brought.broken)


class ContextLeg(Leg):
    """Finds turns by the similarity of their embeddings together with the turn before them.

    An answer such as "Before, then, and leave the time as it is" is near to a question only with
    what it answers.
    """

    name = "context"
    options = frozenset({"floor"})
    projection = "embedding"
    dependency = "index"

    async def find(self, request: LegRequest) -> LegAnswer:
        return await _nearest(request, CONTEXT)


class FactsLeg(Leg):
    """Finds facts by the similarity of their embeddings, or the segments that support them.

    A fact that no segment supports is found itself in any case.
    """

    name = "facts"
    options = frozenset({"floor", "yields"})
    projection = "embedding"
    dependency = "index"
    needs_facts = True

    async def find(self, request: LegRequest) -> LegAnswer:
        return await _nearest(request, ItemKind.FACT)


async def _nearest(
    request: LegRequest,
    kind: VectorKind,
    only: Collection[ItemId] | None = None,
    lacking: str = "",
) -> LegAnswer:
    query, spec, depth = request.query, request.spec, request.depth
    wanted = WantedNeighbours(kind, query.scope, depth, only, query.token)
    answer = await request.lookup.nearest(wanted, request.deadline)
    kept, below = above_floor(answer.candidates, spec.floor)
    if kind is ItemKind.FACT and spec.yields is Yields.EVIDENCE:
        kept = evidence_in_order(kept, answer)[:depth]
    return LegAnswer(kept, below, answer.stale, answer.epoch, lacking, answer.unsearched)


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
