"""Candidates and ranked lists; the order is always by score, then by id."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from serving.domain.items.records import ItemId


class RankStyle(StrEnum):
    """The rule by which a position in a list becomes a rank, where scores are equal."""

    MEAN = "mean"
    """Equal scores share the mean of their positions: 1, 2.5, 2.5, 4. What has no reason to be
    before another counts as much as that, and a leg that cannot tell its candidates apart counts
    for little."""
    ORDINAL = "ordinal"
    """1, 2, 3, 4: equal scores have different ranks."""
    DENSE = "dense"
    """1, 2, 2, 3: equal scores share a rank, and the next one follows without a gap."""


class Candidate(NamedTuple):
    """An item that a leg found.

    `score` is on the scale of the leg; higher is better. `path` says how the leg found the
    item; `facts` are the ids of the facts that the item is evidence of.
    """

    item: ItemId
    score: float
    path: str = ""
    facts: tuple[str, ...] = ()


_item_of = attrgetter("item")
_score_of = attrgetter("score")


@dataclass(frozen=True, slots=True)
class RankedList:
    """The candidates of one leg: best first, each item once."""

    leg: str
    candidates: tuple[Candidate, ...]

    def __post_init__(self) -> None:
        if len(set(map(_item_of, self.candidates))) != len(self.candidates):
            raise ValueError(f"leg {self.leg!r} names an item twice")
        scores = list(map(_score_of, self.candidates))
        if scores != sorted(scores, reverse=True):
            raise ValueError(f"leg {self.leg!r} is not ordered by descending score")

    def ranks(self, style: RankStyle) -> list[float]:
        """The rank of each candidate, from 1."""
        return _ranks(self.candidates, style)


def _ranks(candidates: Sequence[Candidate], style: RankStyle) -> list[float]:
    scores = list(map(_score_of, candidates))
    if style is RankStyle.ORDINAL or len(set(scores)) == len(scores):
        return list(range(1, len(scores) + 1))
    ranks: list[float] = []
    for number, (_, tied) in enumerate(groupby(scores), start=1):
        count = len(list(tied))
        shared = number if style is RankStyle.DENSE else len(ranks) + (count + 1) / 2
        ranks += [shared] * count
    return ranks


def best_first(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Orders by descending score, equal scores by id; this is a total order."""
    return sorted(candidates, key=lambda candidate: (-candidate.score, candidate.item))


def depth_to_read(depth: int, style: RankStyle) -> int:
    """The number of candidates that `within_depth` needs to know."""
    return 2 * depth if style is RankStyle.MEAN else depth


def within_depth(
    candidates: Sequence[Candidate], depth: int, style: RankStyle
) -> Sequence[Candidate]:
    """Cuts a list to the candidates whose rank is at most `depth`.

    By mean rank, equal scores are in the list together or not at all, so that which of them are
    does not depend on how a store orders them. Those from place p to q have the rank (p + q) / 2,
    which is at most `depth` only if q is below 2 * `depth`: all of them have been read, as
    `depth_to_read` says.
    """
    if style is not RankStyle.MEAN or len(candidates) <= depth:
        return candidates[:depth]
    return candidates[: bisect_right(_ranks(candidates, style), depth)]


def above_floor(
    candidates: Sequence[Candidate], floor: float | None
) -> tuple[list[Candidate], int]:
    """Drops candidates that score below `floor`; returns the rest and the number dropped."""
    if floor is None:
        return list(candidates), 0
    kept = [candidate for candidate in candidates if candidate.score >= floor]
    return kept, len(candidates) - len(kept)
