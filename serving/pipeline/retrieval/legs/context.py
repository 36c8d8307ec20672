"""The leg of meaning in context."""

from __future__ import annotations

from serving.domain.ranking.ranked_list import above_floor
from serving.pipeline.retrieval.legs.leg import Leg, LegAnswer, LegRequest
from serving.ports.vector_index import CONTEXT, WantedNeighbours


class ContextLeg(Leg):
    """Finds turns by the similarity of their embeddings together with the turn before them.

    An answer such as "Before, then, and leave the time as it is" is near to a question only with
    what it answers.
    """

    name = "context"
    options = frozenset({"floor"})
    projection = "embedding"
    dependency = "index"
    by_meaning = True
    ranks_by_text = False

    def is_at_hand(self, request: LegRequest) -> bool:
        return request.lookup.is_at_hand(CONTEXT)

    async def find(self, request: LegRequest) -> LegAnswer:
        """Finds the turns that are nearest to the question, each with the turn before it."""
        query = request.query
        wanted = WantedNeighbours(CONTEXT, query.scope, request.depth, token=query.token)
        answer = await request.nearest(wanted)
        kept, below = above_floor(answer.candidates, request.spec.floor)
        return LegAnswer(kept, below, answer.stale, answer.epoch, unsearched=answer.unsearched)
