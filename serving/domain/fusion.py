"""Many rankings into one: by reciprocal rank, or by score."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from serving.domain.ledger import FusionMethod, LegTerm, worth
from serving.domain.ranking import RankedList, RankStyle
from serving.domain.records import ItemId

RRF_RANK_CONSTANT = 60.0
"""The k of Cormack et al.; their results barely change around it."""


@dataclass(frozen=True, slots=True)
class Fused:
    """An item with the sum of what each leg gave, and the terms of that sum."""

    item: ItemId
    score: float
    terms: tuple[LegTerm, ...]


def fuse(
    lists: Sequence[RankedList],
    *,
    weights: Mapping[str, float],
    method: FusionMethod = FusionMethod.RECIPROCAL_RANK,
    rank_constant: float = RRF_RANK_CONSTANT,
    rank_style: RankStyle = RankStyle.ORDINAL,
    least_scores: Mapping[str, float] | None = None,
) -> list[Fused]:
    """Orders items by the sum over legs of what each gives by `method`.

    Ranks count from 1. A leg that lacks an item adds nothing to it. Equal
    scores are ordered by id, so the result does not depend on the order of
    `lists`.

    Args:
        lists: One ranking per leg; may be empty, and so may each of them.
        weights: The weight of each leg; a leg of weight 0 adds no item.
        method: How a leg's ranks or scores become its terms.
        rank_constant: Above 0; for reciprocal ranks. Larger values flatten the head of each list.
        rank_style: Whether equal scores within a list share a rank.
        least_scores: The least score that each leg could give, 0 if not listed; for convex
            combinations.

    Raises:
        ValueError: `rank_constant` is not above 0.
        KeyError: A leg has no weight.

    Source:
        Reciprocal ranks: Cormack, Clarke, Buettcher, "Reciprocal Rank Fusion outperforms
        Condorcet and individual rank learning methods", SIGIR 2009. Convex combination of
        scores between their theoretical minimum and the list's maximum (TM2C2): Bruch, Gai,
        Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", TOIS 2023.
    """
    if not rank_constant > 0:
        raise ValueError(f"rank_constant must be above 0, got {rank_constant}")

    least_scores = least_scores or {}
    terms: dict[ItemId, list[LegTerm]] = {}
    for ranked in lists:
        weight, least = weights[ranked.leg], least_scores.get(ranked.leg, 0.0)
        if weight == 0:
            continue
        most = ranked.candidates[0].score if ranked.candidates else least
        for candidate, rank in zip(ranked.candidates, ranked.ranks(rank_style), strict=True):
            terms.setdefault(candidate.item, []).append(
                LegTerm(
                    leg=ranked.leg,
                    rank=rank,
                    weight=weight,
                    leg_score=candidate.score,
                    least=least,
                    most=most,
                    path=candidate.path,
                    facts=candidate.facts,
                )
            )

    # fsum, not sum: float addition is not associative, so a running sum lets
    # the order of the lists change a score's last bit and break a tie.
    fused = [
        Fused(item, math.fsum(worth(term, method, rank_constant) for term in of_item), of_item)
        for item, of_item in ((item, tuple(of_item)) for item, of_item in terms.items())
    ]
    return sorted(fused, key=lambda one: (-one.score, one.item))
