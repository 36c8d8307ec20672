"""The cut to the limit."""

from __future__ import annotations

from collections.abc import Sequence

from serving.domain.ranking.profile import Profile
from serving.pipeline.retrieval.order.hit import Hit
from serving.pipeline.retrieval.order.loss import Loss
from serving.pipeline.retrieval.order.step import Step, StepInput


class Cut(Step):
    """Keeps as many hits as the answer may have."""

    loss = Loss.CUT
    left_out = "without a limit"
    rows = 0

    def is_in(self, profile: Profile) -> bool:  # noqa: ARG002
        return True

    def run(self, hits: Sequence[Hit], given: StepInput) -> list[Hit]:
        return list(hits[: given.profile.limit])
