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

    loss = Loss.DISPLACED
    left_out = "without reserved places"

    def is_in(self, profile: Profile) -> bool:
        return any(leg.reserved for leg in profile.legs)

    def run(self, hits: Sequence[Hit], given: StepInput) -> list[Hit]:
        limit = given.profile.limit
        reserved = {
            key: leg.name
            for leg in given.profile.legs
            for key in _best_of(leg.name, leg.reserved, hits)
        }
        answer = [hit.key for hit in hits[:limit]]
        took_place = set()
        for key in [key for key in reserved if key not in answer]:
            give_way = [place for place, there in enumerate(answer) if there not in reserved]
            if not give_way:
                break
            answer[give_way[-1]] = key
            took_place.add(key)

        def marked(hit: Hit) -> Hit:
            if hit.key not in took_place:
                return hit
            return replace(hit, ledger=replace(hit.ledger, reserved_by=reserved[hit.key]))

        shown = [marked(hit) for hit in hits if hit.key in answer]
        return [*shown, *(hit for hit in hits if hit.key not in answer)]


def _best_of(leg: str, count: int, hits: Sequence[Hit]) -> list[tuple[str, ItemId]]:
    ranks = {hit.key: term.rank for hit in hits for term in hit.ledger.leg_terms if term.leg == leg}
    return sorted(ranks, key=lambda key: (ranks[key], key[1]))[:count]
