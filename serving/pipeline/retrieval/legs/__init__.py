"""The legs: each turns a question into candidates, best first.

A leg is a class. What the service has to know of it are attributes of the class, which are read by
its name here.
"""

from __future__ import annotations

from collections.abc import Mapping

from serving.pipeline.retrieval.legs.expansion import RelatedLeg, RepliesLeg
from serving.pipeline.retrieval.legs.graph import GraphLeg
from serving.pipeline.retrieval.legs.leg import Leg, by_name
from serving.pipeline.retrieval.legs.lexical import LexicalLeg
from serving.pipeline.retrieval.legs.meaning import ContextLeg, DenseLeg, FactsLeg
from serving.pipeline.retrieval.legs.opening import HoldingLeg, ImportantLeg
from serving.pipeline.retrieval.legs.temporal import TemporalLeg

__all__ = [
    "LEGS",
    "ContextLeg",
    "DenseLeg",
    "FactsLeg",
    "GraphLeg",
    "HoldingLeg",
    "ImportantLeg",
    "LexicalLeg",
    "RelatedLeg",
    "RepliesLeg",
    "TemporalLeg",
]

LEGS: Mapping[str, type[Leg]] = by_name(
    *(LexicalLeg, DenseLeg, ContextLeg, FactsLeg, GraphLeg, RelatedLeg, RepliesLeg),
    *(TemporalLeg, ImportantLeg, HoldingLeg),
)
"""All legs that a profile can name. Profiles have them in this order."""
