"""Weighing by importance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from serving.domain.ranking.priors import ImportanceStyle, importance_term
from serving.domain.ranking.profile import Profile
from serving.pipeline.retrieval.order.hit import Hit
from serving.pipeline.retrieval.order.loss import Loss
from serving.pipeline.retrieval.order.step import Step, StepInput, importance_of


class Importance(Step):
    """Multiplies scores by importance, or lifts what is important."""

    loss = Loss.LESS_IMPORTANT
    left_out = "without weighing by importance"

    def is_in(self, profile: Profile) -> bool:
        return profile.importance.style is not ImportanceStyle.OFF

    def run(self, hits: Sequence[Hit], given: StepInput) -> list[Hit]:
        profile = given.profile

        def weighed(hit: Hit) -> Hit:
            term = importance_term(
                profile.importance, importance_of(hit.item), profile.rank_constant
            )
            return replace(hit, ledger=replace(hit.ledger, importance=term))

        return given.sorted(map(weighed, hits))
