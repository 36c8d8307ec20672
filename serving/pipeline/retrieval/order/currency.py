"""Statements before stored questions, and present statements before past ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from serving.domain.items.records import ItemId, Segment, time_of
from serving.domain.ranking.holds.judge import judge
from serving.domain.ranking.holds.pairs import HEAD
from serving.domain.ranking.holds.statement import Statement
from serving.domain.ranking.ledger import CurrencyTerm
from serving.domain.ranking.profile import Profile, Sort
from serving.domain.ranking.signals import Traits
from serving.pipeline.retrieval.legs import LEGS
from serving.pipeline.retrieval.order.hit import Hit
from serving.pipeline.retrieval.order.loss import Loss
from serving.pipeline.retrieval.order.step import Step, StepInput

LEGS_BY_MEANING = frozenset(name for name, leg in LEGS.items() if leg.by_meaning)

JUST_ABOVE = 1 + 1e-6


class Currency(Step):
    """Multiplies scores by factors for what the head says about the same thing at other times.

    No factor takes a hit of the head below what follows the head, so the order of an answer does
    not depend on its limit.
    """

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
        items = [hit.item.item for hit in head]
        statements = _statements(head, given)
        judged = judge(given.query.text, statements)
        for place, hit in enumerate(head):
            terms = tuple(
                CurrencyTerm(factor, reason, None if by is None else items[by])
                for factor, reason, by in judged.verdicts[place]
            )
            newer = judged.outdated_by.get(place)
            if terms:
                hit = replace(hit, ledger=replace(hit.ledger, currency=terms))
            if newer is not None:
                hit = replace(hit, outdated_by=items[newer])
            head[place] = hit
        is_after = bool(rest) and rest[0].stage is hits[0].stage
        head = given.sorted(head)
        return [*given.sorted(_kept_above(rest[0].score, head) if is_after else head), *rest]

    def named_by(self, hit: Hit) -> ItemId | None:
        return hit.outdated_by


def _kept_above(least: float, head: Sequence[Hit]) -> list[Hit]:
    """Raises the factors of hits that would fall below a score, in their order."""
    kept = []
    for hit in reversed(head):
        if hit.ledger.currency and hit.score <= least:
            least *= JUST_ABOVE
            *others, last = hit.ledger.currency
            raised = replace(last, factor=last.factor * least / hit.score)
            hit = replace(hit, ledger=replace(hit.ledger, currency=(*others, raised)))
        kept.append(hit)
    return kept


def _statements(head: Sequence[Hit], given: StepInput) -> list[Statement]:
    place = {hit.item.item: at for at, hit in enumerate(head)}

    def closed_by(item: ItemId) -> tuple[int, ...] | None:
        newer = given.closed.get(item)
        return None if newer is None else tuple(place[each] for each in newer if each in place)

    follows = {
        turn.after.item: place[item]
        for item, turn in given.adjacent.items()
        if turn.after is not None and item in place
    }
    return [
        _statement(hit, given.traits.get(item), follows.get(item), closed_by(item))
        for item, hit in zip(place, head, strict=True)
    ]


def _statement(
    hit: Hit, traits: Traits | None, after: int | None, closed_by: tuple[int, ...] | None
) -> Statement:
    turn = hit.item if isinstance(hit.item, Segment) and hit.item.speaker else None
    return Statement(
        text=hit.text,
        said=time_of(hit.item),
        score=hit.score,
        is_near=any(term.leg in LEGS_BY_MEANING for term in hit.ledger.leg_terms),
        is_turn=turn is not None,
        speaker=turn.speaker if turn else "",
        session=turn.session if turn else "",
        vector=None if traits is None else traits.vector,
        after=after,
        closed_by=closed_by,
        stored=hit.item.created_at,
    )
