"""The steps that concern an answer as a whole: diversity, reserved places, and the limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from serving.domain.items.records import ItemId
from serving.domain.ranking.diversity import maximal_marginal_relevance
from serving.domain.ranking.ledger import DiversityTerm
from serving.domain.ranking.profile import Profile
from serving.pipeline.retrieval.order.hit import Hit
from serving.pipeline.retrieval.order.loss import Loss
from serving.pipeline.retrieval.order.step import Step, StepInput


class Diversify(Step):
    """Orders the best hits by relevance less their likeness to hits before them."""

    loss = Loss.DISPLACED
    left_out = "before diversification"

    def is_in(self, profile: Profile) -> bool:
        return profile.diversity is not None

    def run(self, hits: Sequence[Hit], given: StepInput) -> list[Hit]:
        diversity = given.profile.diversity
        assert diversity is not None, "only run for a profile that diversifies; this is a bug"
        if not hits:
            return []
        pool = max(diversity.pool, given.profile.limit)
        # Not always the first hit's: hits that were not reranked come last, whatever their score.
        best = max(hit.score for hit in hits[:pool])
        whole = best if diversity.relative and best > 0 else 1.0
        chosen = maximal_marginal_relevance(
            [hit.text for hit in hits],
            [hit.score / whole for hit in hits],
            trade_off=diversity.trade_off,
            pool=pool,
        )
        head = []
        for one in chosen:
            closest = None if one.closest is None else hits[one.closest].item.item
            values = (one.relevance, one.max_similarity, one.value)
            term = DiversityTerm(diversity.trade_off, *values, closest)
            hit = hits[one.place]
            head.append(replace(hit, ledger=replace(hit.ledger, diversity=term)))
        return [*head, *hits[pool:]]

    def named_by(self, hit: Hit) -> ItemId | None:
        return None if hit.ledger.diversity is None else hit.ledger.diversity.closest


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


class Cut(Step):
    """Keeps as many hits as the answer may have."""

    loss = Loss.CUT
    left_out = "without a limit"
    rows = 0

    def is_in(self, profile: Profile) -> bool:  # noqa: ARG002
        return True

    def run(self, hits: Sequence[Hit], given: StepInput) -> list[Hit]:
        return list(hits[: given.profile.limit])


CUT = Cut()

OF_THE_ANSWER: Sequence[Step] = (Diversify(), Reserve(), CUT)
"""These steps, which several tenants may share."""
