"""What holds now: statements before stored questions, and what holds before what once held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from serving.domain.items.records import ItemId, Segment, time_of
from serving.domain.ranking.current import HEAD, Statement, current_first
from serving.domain.ranking.ledger import CurrencyTerm
from serving.domain.ranking.profile import Profile, Sort
from serving.pipeline.retrieval.legs import LEGS
from serving.pipeline.retrieval.order.hit import Hit
from serving.pipeline.retrieval.order.loss import Loss
from serving.pipeline.retrieval.order.step import Step, StepInput

LEGS_BY_MEANING = frozenset(name for name, leg in LEGS.items() if leg.by_meaning)


class Currency(Step):
    """Multiplies scores by factors for what the head says about the same thing at other times.

    No factor takes a hit of the head below what follows the head, so the order of an answer does
    not depend on its limit.
    """

    term = "currency"
    loss = Loss.OUTDATED
    left_out = "without a preference for what holds now"
    rows = HEAD + 1

    def is_in(self, profile: Profile) -> bool:
        return profile.current_first and profile.sort is Sort.RELEVANCE

    def run(self, hits: Sequence[Hit], given: StepInput) -> list[Hit]:
        # Hits that were not reranked follow those that were, whatever their scores.
        head = list(
            takewhile(lambda hit: hit.stage is hits[0].stage and hit.score > 0, hits[:HEAD])
        )
        rest = hits[len(head) :]
        below = rest[0].score if rest and rest[0].stage is hits[0].stage else 0.0
        judged = current_first(given.query.text, list(map(_statement, head)), below=max(below, 0.0))
        items = [hit.item.item for hit in head]
        for place, hit in enumerate(head):
            newer = judged.outdated_by.get(place)
            if verdicts := judged.verdicts[place]:
                terms = tuple(
                    CurrencyTerm(factor, reason, None if by is None else items[by])
                    for factor, reason, by in verdicts
                )
                head[place] = hit = replace(hit, ledger=replace(hit.ledger, currency=terms))
            if newer is not None:
                head[place] = replace(hit, outdated_by=items[newer])
        return [*given.sorted(head), *rest]

    def named_by(self, hit: Hit) -> ItemId | None:
        later = (term.by for term in hit.ledger.currency if term.by is not None)
        return hit.outdated_by or next(later, None)


def _statement(hit: Hit) -> Statement:
    return Statement(
        hit.text,
        time_of(hit.item),
        hit.score,
        is_near=any(term.leg in LEGS_BY_MEANING for term in hit.ledger.leg_terms),
        is_turn=isinstance(hit.item, Segment) and hit.item.speaker != "",
    )
