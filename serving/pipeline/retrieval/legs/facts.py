"""The leg of facts."""

from __future__ import annotations

from collections.abc import Sequence

from serving.domain.items.records import ItemId, ItemKind, segment_id
from serving.domain.ranking.profile import Yields
from serving.domain.ranking.ranked_list import Candidate, above_floor
from serving.pipeline.retrieval.legs.leg import Leg, LegAnswer, LegRequest
from serving.ports.vector_index import IndexAnswer, WantedNeighbours


class FactsLeg(Leg):
    """Finds facts by the similarity of their embeddings, or the segments that support them.

    A fact that no segment supports is found itself in any case.
    """

    name = "facts"
    options = frozenset({"floor", "yields"})
    projection = "embedding"
    dependency = "index"
    by_meaning = True
    ranks_by_text = False
    needs_facts = True

    def is_at_hand(self, request: LegRequest) -> bool:
        return request.lookup.is_at_hand(ItemKind.FACT)

    async def find(self, request: LegRequest) -> LegAnswer:
        """Finds the facts nearest to the question, or their evidence in the facts' order."""
        query = request.query
        wanted = WantedNeighbours(ItemKind.FACT, query.scope, request.depth, token=query.token)
        answer = await request.nearest(wanted)
        kept, below = above_floor(answer.candidates, request.spec.floor)
        if request.spec.yields is Yields.EVIDENCE:
            kept = evidence_in_order(kept, answer)[: request.depth]
        return LegAnswer(kept, below, answer.stale, answer.epoch, unsearched=answer.unsearched)


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
