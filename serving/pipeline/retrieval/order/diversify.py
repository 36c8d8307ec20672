"""Diversity by maximal marginal relevance."""

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
