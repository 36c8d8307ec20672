"""The legs: each turns a question into candidates, best first.

A leg is a class in a file of its own. What the service has to know of it are attributes of the
class, which are read by its name here.
"""

from __future__ import annotations

from collections.abc import Mapping

from serving.pipeline.retrieval.legs.context import ContextLeg
from serving.pipeline.retrieval.legs.dense import DenseLeg
from serving.pipeline.retrieval.legs.facts import FactsLeg
from serving.pipeline.retrieval.legs.graph import GraphLeg
from serving.pipeline.retrieval.legs.holding import HoldingLeg
from serving.pipeline.retrieval.legs.important import ImportantLeg
from serving.pipeline.retrieval.legs.leg import Leg, by_name
from serving.pipeline.retrieval.legs.lexical import LexicalLeg
from serving.pipeline.retrieval.legs.related import RelatedLeg
from serving.pipeline.retrieval.legs.replies import RepliesLeg
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
