"""A share of the score of the first hits for the turns next to them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TypeVar

from serving.domain.items.records import ItemId
from serving.domain.ranking.fusion import Fused
from serving.domain.ranking.ledger import AdjacentTerm
from serving.domain.ranking.profile import Profile
from serving.pipeline.retrieval.order.hit import Hit
from serving.pipeline.retrieval.order.loss import Loss
from serving.pipeline.retrieval.order.step import Step, StepInput
from serving.ports.vector_index import Adjacency

GIVERS = 10
"""The number of first hits that give."""

SETTLED = 5
"""The number of first hits that take nothing: a share brings others up to them, and leaves the
order in which the legs have them."""

Scored = TypeVar("Scored", Fused, Hit)


class Adjacent(Step):
    """Adds a share of the score of each of the first hits to the turns next to it that ask nothing.

    Those that are among the first themselves stay as they are.

    What answers is often said in the turn before or after the one that has the words. The turns
    are candidates: what no leg found would hardly get a place by a share alone.
    """

    loss = Loss.DISPLACED
    left_out = "without shares for adjacent turns"
    rows = GIVERS

    def is_in(self, profile: Profile) -> bool:
        return profile.adjacent > 0

    def run(self, hits: Sequence[Hit], given: StepInput) -> list[Hit]:
        terms: defaultdict[ItemId, tuple[AdjacentTerm, ...]] = defaultdict(tuple)
        for hit in first_of(hits, GIVERS):
            for item in takers(given.adjacent.get(hit.item.item, Adjacency())):
                terms[item] += (AdjacentTerm(given.profile.adjacent, hit.score, hit.item.item),)
        for hit in first_of(hits, SETTLED):
            terms.pop(hit.item.item, None)
        return given.sorted(
            replace(hit, ledger=replace(hit.ledger, adjacent=terms[hit.item.item]))
            if hit.item.item in terms
            else hit
            for hit in hits
        )


def first_of(ranked: Sequence[Scored], count: int) -> list[Scored]:
    """The first of a list, best first; all that have the score of the last of them."""
    least = ranked[min(count, len(ranked)) - 1].score if ranked else 0.0
    return list(takewhile(lambda one: one.score >= least, ranked))


def takers(adjacent: Adjacency) -> list[ItemId]:
    """The turns that ask nothing."""
    both = (adjacent.before, adjacent.after)
    return [turn.item for turn in both if turn is not None and not turn.asks]
