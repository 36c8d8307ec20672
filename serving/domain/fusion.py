"""Many rankings into one, by reciprocal rank."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from serving.domain.ledger import LegTerm
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


def fuse_by_reciprocal_rank(
    lists: Sequence[RankedList],
    *,
    weights: Mapping[str, float],
    rank_constant: float = RRF_RANK_CONSTANT,
    rank_style: RankStyle = RankStyle.ORDINAL,
) -> list[Fused]:
    """Orders items by the sum over legs of weight / (rank_constant + rank).

    Ranks count from 1. A leg that lacks an item adds nothing to it. Equal
    scores are ordered by id, so the result does not depend on the order of
    `lists`.

    Args:
        lists: One ranking per leg; may be empty, and so may each of them.
        weights: The weight of each leg; a leg of weight 0 adds no item.
        rank_constant: Above 0. Larger values flatten the head of each list.
        rank_style: Whether equal scores within a list share a rank.

    Raises:
        ValueError: `rank_constant` is not above 0.
        KeyError: A leg has no weight.

    Source:
        Cormack, Clarke, Buettcher, "Reciprocal Rank Fusion outperforms
        Condorcet and individual rank learning methods", SIGIR 2009.
    """
    if not rank_constant > 0:
        raise ValueError(f"rank_constant must be above 0, got {rank_constant}")

    terms: dict[ItemId, list[LegTerm]] = {}
    for ranked in lists:
        weight = weights[ranked.leg]
        if weight == 0:
            continue
        for candidate, rank in zip(ranked.candidates, ranked.ranks(rank_style), strict=True):
            terms.setdefault(candidate.item, []).append(
                LegTerm(
                    leg=ranked.leg,
                    rank=rank,
                    weight=weight,
                    leg_score=candidate.score,
                    term=weight / (rank_constant + rank),
                    path=candidate.path,
                    facts=candidate.facts,
                )
            )

    # fsum, not sum: float addition is not associative, so a running sum lets
    # the order of the lists change a score's last bit and break a tie.
    fused = [
        Fused(item, math.fsum(term.term for term in of_item), tuple(of_item))
        for item, of_item in terms.items()
    ]
    return sorted(fused, key=lambda one: (-one.score, one.item))
