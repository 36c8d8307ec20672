"""The leg of what follows stored questions."""

from __future__ import annotations

from functools import partial

from serving.domain.items.records import ItemKind
from serving.domain.ranking.ranked_list import Candidate, above_floor, best_first
from serving.pipeline.retrieval.legs.leg import Leg, LegAnswer, LegRequest, LegSkippedError


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
        found = await request.found_before(expansion.found_by)
        if not found.candidates and (lacking := [*found.broken, *found.skipped]):
            raise LegSkippedError(f"no candidate to start from; {'; '.join(lacking)}")
        scores = {each.item: each.score for each in found.candidates[: expansion.seeds]}
        # Words may have found a question that the index does not know yet.
        adjacent = await request.ask("index", partial(index.adjacent, request.query, [*scores]))
        replies = [
            Candidate(turn.after.item, scores[item], f"after {item.id}")
            for item, turn in adjacent.of.items()
            if turn.asks and turn.after is not None
        ]
        kept, below = above_floor(best_first(replies)[: request.depth], request.spec.floor)
        return LegAnswer(kept, below, adjacent.stale, lacking="; ".join(found.broken))
