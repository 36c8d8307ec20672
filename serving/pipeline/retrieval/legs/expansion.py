"""The legs that lead on from what other legs found: to shared entities, and to the next turn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from serving.domain.budget import Deadline
from serving.domain.items.records import ItemId, ItemKind
from serving.domain.ranking.ranked_list import Candidate, above_floor, best_first
from serving.pipeline.retrieval.legs.graph import graph_is_stale
from serving.pipeline.retrieval.legs.leg import (
    Leg,
    LegAnswer,
    LegRequest,
    LegSkippedError,
    fused_by_rank,
)
from serving.ports.change_log import Consistency
from serving.ports.graph import Graph

SEEDING_DEPTH = 20
"""The depth of each list to which seeds are taken; looking deeper changes none of them."""


class RelatedLeg(Leg):
    """Finds segments that mention the same entities as the best candidates of other legs.

    This is the second hop of a two-hop question: who directed the film is in a passage that shares
    words with the question; where he was born is in one that shares his name with the first.
    """

    name = "related"
    options = frozenset({"floor", "expansion"})
    projection = "embedding"
    dependency = ""
    by_meaning = False
    ranks_by_text = False
    sheddable = True

    def __init__(self, graph: Graph, consistency: Consistency) -> None:
        self._graph = graph
        self._consistency = consistency

    def is_at_hand(self, request: LegRequest) -> bool:
        return request.lookup.is_index_at_hand(ItemKind.SEGMENT)

    async def find(self, request: LegRequest) -> LegAnswer:
        """Finds segments that share rare entities with the other legs' first candidates.

        Entities that the question names do not count: they lead to what the first hop finds.
        """
        expansion = request.spec.expansion
        assert expansion is not None, "profiles give this leg an expansion; this is a bug"
        before = await request.found_before(expansion.found_by)
        if len(before.missing) == len(before.found):
            raise LegSkippedError(f"no candidate to start from; {'; '.join(before.missing)}")
        heads = {leg: each[:SEEDING_DEPTH] for leg, each in before.found.items()}
        seeds = fused_by_rank(heads)[: expansion.seeds]
        duplicates = duplicates_of(seeds, before.found)
        answer = await self._related(request, seeds)
        others = [each for each in answer.candidates if each.item not in duplicates]
        kept, below = above_floor(others, request.spec.floor)
        return replace(answer, candidates=kept, below_floor=below, lacking=before.lacking)

    async def _related(self, request: LegRequest, seeds: Sequence[ItemId]) -> LegAnswer:
        """Asks the index, or the graph if the index is in shards and none knows all mentions."""
        query, depth = request.query, request.depth
        if (index := request.lookup.whole_index) is not None:
            answer = await request.ask("index", partial(index.related, query, seeds, depth))
            return LegAnswer(answer.candidates, stale=answer.stale, index_epoch=answer.epoch)

        async def search(deadline: Deadline) -> LegAnswer:
            stale = await graph_is_stale(self._consistency, request, deadline)
            found = await self._graph.related(query, seeds, depth, deadline)
            return LegAnswer(found, stale=stale)

        return await request.ask("graph", search)


def duplicates_of(
    seeds: Iterable[ItemId], found: Mapping[str, Sequence[Candidate]]
) -> frozenset[ItemId]:
    """Returns seeds and candidates with equal scores in every leg: the same text, stored twice.

    It is related to itself: one would rank above the other without a reason.
    """
    scores = [{each.item: each.score for each in candidates} for candidates in found.values()]
    by_scores: defaultdict[tuple[float | None, ...], set[ItemId]] = defaultdict(set)
    for item in chain.from_iterable(scores):
        by_scores[tuple([of_leg.get(item) for of_leg in scores])].add(item)
    seeds = set(seeds)
    return frozenset(
        chain.from_iterable(
            items for items in by_scores.values() if len(items) > 1 and not seeds.isdisjoint(items)
        )
    )


class RepliesLeg(Leg):
    """Finds the turns after stored questions that other legs found.

    "Cool, where?" has the words of a question, and what answers it, "At the lake", has none of
    them. Each turn has the score of the question before it.
    """

    name = "replies"
    options = frozenset({"floor", "expansion"})
    projection = "embedding"
    dependency = ""
    by_meaning = False
    ranks_by_text = False

    def is_at_hand(self, request: LegRequest) -> bool:
        return request.lookup.is_index_at_hand(ItemKind.SEGMENT)

    async def find(self, request: LegRequest) -> LegAnswer:
        """Finds what follows the questions among the other legs' first candidates."""
        expansion = request.spec.expansion
        assert expansion is not None, "profiles give this leg an expansion; this is a bug"
        if (index := request.lookup.whole_index) is None:
            raise LegSkippedError("no shard of the index knows all turns of a session")
        before = await request.found_before(expansion.found_by)
        if not before.candidates and before.missing:
            raise LegSkippedError(f"no candidate to start from; {'; '.join(before.missing)}")
        scores = {each.item: each.score for each in before.candidates[: expansion.seeds]}
        # Words may have found a question that the index does not know yet.
        adjacent = await request.ask("index", partial(index.adjacent, request.query, [*scores]))
        replies = [
            Candidate(turn.after.item, scores[item], f"after {item.id}")
            for item, turn in adjacent.of.items()
            if turn.asks and turn.after is not None
        ]
        kept, below = above_floor(best_first(replies)[: request.depth], request.spec.floor)
        return LegAnswer(kept, below, adjacent.stale, lacking=before.lacking)
