"""The leg of relations between entities."""

from __future__ import annotations

from dataclasses import replace

from serving.domain.breaker import POSTGRES
from serving.domain.budget import GRAPH_WALK, Deadline
from serving.domain.items.records import ItemId, ItemKind, segment_id
from serving.domain.questions.named_entities import may_name
from serving.domain.ranking.ranked_list import Candidate, above_floor
from serving.pipeline.retrieval.legs.leg import (
    Leg,
    LegAnswer,
    LegRequest,
    LegSkippedError,
    fused_by_rank,
    require_text,
)
from serving.ports.change_log import Consistency
from serving.ports.graph import Graph


class GraphLeg(Leg):
    """Finds segments or facts by the relations of the entities that the question names.

    A profile may have it start from what other legs found.

    Without facts a name leads only to what mentions it, which words find as well, and in a better
    order (docs/ranking.md).
    """

    name = "graph"
    options = frozenset({"floor", "yields", "walk"})
    projection = "graph"
    dependency = "graph"
    by_meaning = False
    ranks_by_text = False
    sheddable = True
    needs_facts = True

    def __init__(self, graph: Graph, consistency: Consistency) -> None:
        self._graph = graph
        self._consistency = consistency

    def find_in_memory(self, request: LegRequest) -> LegAnswer | None:
        query, spec = request.query, request.spec
        if request.view is None or query.seeds or spec.walk.seeds_from:
            return None
        require_text(query)
        found = request.view.walk(query, spec.walk, request.depth, spec.yields)
        if found is None:
            return None
        return LegAnswer(*above_floor(found, spec.floor), in_memory=True)

    async def find(self, request: LegRequest) -> LegAnswer:
        """Walks the graph once it has seen the caller's write, or half of the time has passed."""
        query, spec = request.query, request.spec
        walk, lacking = spec.walk, ""
        if query.seeds:
            seeds: list[ItemId] | None = [segment_id(id_) for id_ in query.seeds]
            walk = replace(walk, mentions=False)
        elif walk.seeds_from:
            seeds, lacking = await _found_seeds(request)
        else:
            require_text(query)
            seeds = None
        by_name = (seeds is None or walk.mentions) and may_name(query.text)
        if not by_name and all(seed.kind is not ItemKind.SEGMENT for seed in seeds or ()):
            # Not by an answer of the graph, which would close its breaker.
            return LegAnswer([], lacking=lacking)

        async def search(deadline: Deadline) -> tuple[bool, list[Candidate]]:
            stale = await graph_is_stale(self._consistency, request, deadline)
            return stale, await self._graph.search(
                query, walk, seeds, request.depth, spec.yields, deadline
            )

        stale, found = await request.ask("graph", search)
        kept, below = above_floor(found, spec.floor)
        return LegAnswer(kept, below, stale, lacking=lacking)


async def _found_seeds(request: LegRequest) -> tuple[list[ItemId], str]:
    """Returns what the legs that the walk starts from found, and why some of them are missing.

    If all are, raises `LegSkippedError`, unless the walk starts from the names in the question too.
    """
    walk = request.spec.walk
    before = await request.found_before(walk.seeds_from)
    if len(before.missing) == len(before.found) and not walk.mentions:
        raise LegSkippedError(f"no entity to start from; {'; '.join(before.missing)}")
    return fused_by_rank(before.found), before.lacking


async def graph_is_stale(consistency: Consistency, request: LegRequest, deadline: Deadline) -> bool:
    """Waits until the graph has seen the caller's write; True if it did not in time."""
    token = request.query.token
    if token is None:
        return False
    if not request.calls.asks(POSTGRES):
        return True  # which knows what the graph has seen
    return not await consistency.graph_has_seen(token, GRAPH_WALK.before(deadline))
