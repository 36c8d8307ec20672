"""Reserved places: a leg's best hits are in the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from serving.domain.items.records import ItemId
from serving.domain.ranking.profile import Profile
from serving.pipeline.retrieval.order.hit import Hit
from serving.pipeline.retrieval.order.loss import Loss
from serving.pipeline.retrieval.order.step import Step, StepInput


class Reserve(Step):
    """Lets the last hits of the answer make room for those with a reserved place."""

    term = "reserved_by"
    loss = Loss.DISPLACED
    left_out = "without reserved places"

    def is_in(self, profile: Profile) -> bool:
        return any(leg.reserved for leg in profile.legs)

    def run(self, hits: Sequence[Hit], given: StepInput) -> list[Hit]:
        limit = given.profile.limit
        reserved = {
            item: leg.name
            for leg in given.profile.legs
            for item in _best_of(leg.name, leg.reserved, hits)
        }
        answer = [hit.item.item for hit in hits[:limit]]
        took_place = set()
        for item in [item for item in reserved if item not in answer]:
            give_way = [place for place, there in enumerate(answer) if there not in reserved]
            if not give_way:
                break
            answer[give_way[-1]] = item
            took_place.add(item)

        def marked(hit: Hit) -> Hit:
            if hit.item.item not in took_place:
                return hit
            return replace(hit, ledger=replace(hit.ledger, reserved_by=reserved[hit.item.item]))

        shown = [marked(hit) for hit in hits if hit.item.item in answer]
        return [*shown, *(hit for hit in hits if hit.item.item not in answer)]


def _best_of(leg: str, count: int, hits: Sequence[Hit]) -> list[ItemId]:
    ranks = {
        hit.item.item: term.rank for hit in hits for term in hit.ledger.leg_terms if term.leg == leg
    }
    return sorted(ranks, key=lambda item: (ranks[item], item))[:count]
