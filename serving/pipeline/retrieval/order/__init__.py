"""The steps between fusion and the answer, in the order in which they run."""

from __future__ import annotations

from collections.abc import Sequence

from serving.pipeline.retrieval.order.answer import OF_THE_ANSWER
from serving.pipeline.retrieval.order.currency import Currency
from serving.pipeline.retrieval.order.scoring import ADJACENT, RERANK, Decay, Fold, Importance
from serving.pipeline.retrieval.order.step import Step

STEPS: Sequence[Step] = (
    *(Fold(), ADJACENT, Importance(), Decay()),
    *(RERANK, Currency()),
    *OF_THE_ANSWER,
)
"""All steps. A profile has those of them that it switches on."""
