"""Reranking of the head by a cross-encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from serving.domain.ranking.ledger import FusionMethod, RerankTerm
from serving.domain.ranking.profile import Profile
from serving.pipeline.retrieval.order.hit import Hit, Stage
from serving.pipeline.retrieval.order.loss import Loss
from serving.pipeline.retrieval.order.step import Step, StepInput


class Rerank(Step):
    """Mixes the scores of the head with a reranker's; the other hits follow in coarse order."""

    loss = Loss.RERANKED_DOWN
    left_out = "before reranking"

    def is_in(self, profile: Profile) -> bool:
        return profile.rerank is not None

    def head(self, hits: Sequence[Hit], profile: Profile) -> list[Hit]:
        """Returns the hits to rerank; never a sensitive one."""
        if profile.rerank is None:
            return []
        return [hit for hit in hits if not hit.item.sensitive][: profile.rerank.head]

    def run(self, hits: Sequence[Hit], given: StepInput) -> list[Hit]:
        profile, logits = given.profile, given.logits
        assert profile.rerank is not None, "only run for a profile that reranks; this is a bug"
        if logits is None:
            return [replace(hit, stage=given.not_reranked) for hit in hits]
        scale = _scale(hits, profile.fusion)
        reranked, coarse = [], []
        for hit in hits:
            if (logit := logits.get(hit.item.item)) is None:
                coarse.append(replace(hit, stage=Stage.COARSE))
                continue
            term = RerankTerm(logit=logit, weight=profile.rerank.weight, scale=scale)
            ledger = replace(hit.ledger, rerank=term)
            reranked.append(replace(hit, stage=Stage.RERANKED, ledger=ledger))
        return [*given.sorted(reranked), *coarse]


def _scale(hits: Sequence[Hit], fusion: FusionMethod) -> float:
    """Returns the divisor of coarse scores before they are mixed with probabilities.

    Cosines already have that scale; sums of reciprocal ranks do not.
    """
    if fusion is FusionMethod.SCORE:
        return 1.0
    return max((hit.score for hit in hits), default=1.0) or 1.0
