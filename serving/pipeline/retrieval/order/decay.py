"""Decay by age."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from serving.domain.items.records import Fact, Item, Segment, time_of
from serving.domain.ranking.ledger import DecayTerm
from serving.domain.ranking.priors import Decay as DecayPrior
from serving.domain.ranking.priors import decay_term
from serving.domain.ranking.profile import Profile
from serving.pipeline.retrieval.order.hit import Hit
from serving.pipeline.retrieval.order.loss import Loss
from serving.pipeline.retrieval.order.step import Step, StepInput

FACT_KIND = "relationship"
"""The kind under which a fact ages."""


class Decay(Step):
    """Multiplies scores by a factor that falls with age."""

    loss = Loss.DECAYED
    left_out = "without decay by age"

    def is_in(self, profile: Profile) -> bool:
        return profile.decay is not None

    def run(self, hits: Sequence[Hit], given: StepInput) -> list[Hit]:
        prior = given.profile.decay
        assert prior is not None, "only run for a profile with decay; this is a bug"

        def aged(hit: Hit) -> Hit:
            term = _term(prior, hit.item, given.query.scope.as_of)
            return replace(hit, ledger=replace(hit.ledger, decay=term))

        return given.sorted(map(aged, hits))


def _term(prior: DecayPrior, item: Item, as_of: datetime) -> DecayTerm:
    fresh = prior.facts_are_fresh and isinstance(item, Fact)
    since = as_of if fresh else time_of(item)
    kind = item.kind if isinstance(item, Segment) else FACT_KIND
    return decay_term(prior, kind=kind, since=since, as_of=as_of)
