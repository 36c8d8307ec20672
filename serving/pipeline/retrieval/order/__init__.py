"""The steps between fusion and the answer, in the order in which they run.

A step is a class in a file of its own, and has its place here.
"""

from __future__ import annotations

from collections.abc import Sequence

from serving.domain.ranking.profile import Profile
from serving.pipeline.retrieval.order.adjacent import Adjacent
from serving.pipeline.retrieval.order.currency import Currency
from serving.pipeline.retrieval.order.cut import Cut
from serving.pipeline.retrieval.order.decay import Decay
from serving.pipeline.retrieval.order.diversify import Diversify
from serving.pipeline.retrieval.order.fold import Fold
from serving.pipeline.retrieval.order.importance import Importance
from serving.pipeline.retrieval.order.rerank import Rerank
from serving.pipeline.retrieval.order.reserve import Reserve
from serving.pipeline.retrieval.order.step import Step

__all__ = ["ADJACENT", "CUT", "OF_THE_ANSWER", "RERANK", "STEPS", "steps_of"]

ADJACENT = Adjacent()
RERANK = Rerank()
CUT = Cut()

OF_THE_ANSWER: Sequence[Step] = (Diversify(), Reserve(), CUT)
"""The steps that concern an answer as a whole, which several tenants may share."""

STEPS: Sequence[Step] = (
    *(Fold(), ADJACENT, Importance(), Decay()),
    *(RERANK, Currency()),
    *OF_THE_ANSWER,
)
"""All steps. A profile has those of them that it switches on."""


def steps_of(profile: Profile) -> tuple[Step, ...]:
    """Returns the steps of a profile, in order."""
    return tuple(step for step in STEPS if step.is_in(profile))
