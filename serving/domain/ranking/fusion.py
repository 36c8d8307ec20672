"""Fusion of several rankings into one: by reciprocal rank, or by score."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from serving.domain.items.records import ItemId
from serving.domain.ranking.ledger import FusionMethod, LegTerm, worth
from serving.domain.ranking.ranked_list import RankedList, RankStyle

PUBLISHED_RANK_CONSTANT = 60.0
"""The k of Cormack et al.; results are not sensitive to values near it.

It is that of a profile which sets none. Most of the shipped profiles do, in their `rank_constant`.
"""


class Fused(NamedTuple):
    """An item with its fused score and the terms of the sum."""

    item: ItemId
    score: float
    terms: tuple[LegTerm, ...]


def fuse(
    lists: Sequence[RankedList],
    *,
    weights: Mapping[str, float],
    method: FusionMethod = FusionMethod.RECIPROCAL_RANK,
    rank_constant: float,
    rank_style: RankStyle = RankStyle.MEAN,
    least_scores: Mapping[str, float] | None = None,
) -> list[Fused]:
    """Orders items by the sum of their terms over all legs.

    Ranks start at 1. A leg that did not find an item adds nothing to its score. Equal scores
    are ordered by id, so the result does not depend on the order of `lists`. A leg of weight 0 adds
    no item. The larger `rank_constant`, the flatter the head of each list. `least_scores` are for
    convex combinations; those that are not listed are 0.

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
    terms: defaultdict[ItemId, list[LegTerm]] = defaultdict(list)
    for ranked in lists:
        weight, least = weights[ranked.leg], least_scores.get(ranked.leg, 0.0)
        if weight == 0:
            continue
        most = ranked.candidates[0].score if ranked.candidates else least
        for candidate, rank in zip(ranked.candidates, ranked.ranks(rank_style), strict=True):
            item, score, path, facts = candidate
            term = LegTerm(ranked.leg, rank, weight, score, least, most, path, facts)
            terms[item].append(term)

    # fsum, not sum: float addition is not associative. With a running sum, the order of the
    # lists could change the last bit of a score and break a tie.
    fused = [
        Fused(item, math.fsum([worth(term, method, rank_constant) for term in found]), tuple(found))
        for item, found in terms.items()
    ]
    return sorted(fused, key=lambda one: (-one.score, one.item))
