"""The leg of relations between entities."""

from __future__ import annotations

from serving.domain.budget import GRAPH_WALK
from serving.domain.items.records import ItemId, segment_id
from serving.domain.ranking.ranked_list import above_floor
from serving.pipeline.retrieval.legs.leg import (
    Leg,
    LegAnswer,
    LegRequest,
    LegSkippedError,
    require_text,
)
from serving.ports.change_log import Consistency
from serving.ports.graph import Graph


class GraphLeg(Leg):
    """Finds segments or facts by the relations of the entities that the question names.

    Without facts a name leads only to what mentions it, which words find as well, and in a better
    order (docs/ranking.md).
    """

    name = "graph"
    options = frozenset({"floor", "yields", "walk"})
    projection = "graph"
    dependency = "graph"
    sheddable = True
    needs_facts = True

    def __init__(self, graph: Graph, consistency: Consistency) -> None:
        self._graph = graph
        self._consistency = consistency

    async def find(self, request: LegRequest) -> LegAnswer:
        """Walks the graph once it has seen the caller's write, or half of the time has passed."""
        query, spec = request.query, request.spec
        stale = await graph_is_stale(self._consistency, request)
        seeds = await self._seeds(request)
        found = await self._graph.search(
            query, spec.walk, seeds, request.depth, spec.yields, request.deadline
        )
        kept, below = above_floor(found, spec.floor)
        return LegAnswer(kept, below, stale)

    async def _seeds(self, request: LegRequest) -> list[ItemId] | None:
        """Returns the segments to start from; None for the entities that the question names."""
        if request.query.seeds:
            return [segment_id(id_) for id_ in request.query.seeds]
        if leg := request.spec.walk.seeds_from:
            brought = await request.found_before([leg])
            for why in (*brought.broken, *brought.skipped):
                raise LegSkippedError(f"no entity to start from; {why}")
            return brought.items
        require_text(request.query)
        return None


async def graph_is_stale(consistency: Consistency, request: LegRequest) -> bool:
    """Waits until the graph has seen the caller's write; True if it did not in time."""
    if request.query.token is None:
        return False
    waiting = GRAPH_WALK.before(request.deadline)
    return not await consistency.graph_has_seen(request.query.token, waiting)
