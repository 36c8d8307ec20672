"""Candidates, ranked lists, and the one rule of order: score, then id."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from serving.domain.records import ItemId


class RankStyle(StrEnum):
    """How a place in a list becomes a rank."""

    ORDINAL = "ordinal"
    """1, 2, 3, ...: equal scores differ in rank."""
    DENSE = "dense"
    """Equal scores share a rank, and the next one follows without a gap."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An item that a leg found.

    `score` is on the leg's own scale, higher is better. `path` says how the
    leg came to it; `facts` are the ids of the facts it is evidence of.
    """

    item: ItemId
    score: float
    path: str = ""
    facts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RankedList:
    """What one leg found: best first, each item once.

    With `ties_share`, equal scores share a rank whatever the style: between them it says nothing.
    """

    leg: str
    candidates: tuple[Candidate, ...]
    ties_share: bool = False

    def __post_init__(self) -> None:
        if len({candidate.item for candidate in self.candidates}) != len(self.candidates):
            raise ValueError(f"leg {self.leg!r} names an item twice")
        scores = [candidate.score for candidate in self.candidates]
        if any(earlier < later for earlier, later in pairwise(scores)):
            raise ValueError(f"leg {self.leg!r} is not ordered by falling score")

    def ranks(self, style: RankStyle = RankStyle.ORDINAL) -> list[int]:
        """The rank of each candidate, from 1."""
        if style is RankStyle.ORDINAL and not self.ties_share:
            return list(range(1, len(self.candidates) + 1))
        ranks: list[int] = []
        for place, candidate in enumerate(self.candidates):
            if place == 0:
                ranks.append(1)
            else:
                tied = candidate.score == self.candidates[place - 1].score
                ranks.append(ranks[-1] + (0 if tied else 1))
        return ranks


def best_first(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Orders by falling score, equal scores by id, so that the order is total."""
    return sorted(candidates, key=lambda candidate: (-candidate.score, candidate.item))


def above_floor(
    candidates: Sequence[Candidate], floor: float | None
) -> tuple[list[Candidate], int]:
    """Splits off what scores below `floor`; returns what is left and how many went."""
    if floor is None:
        return list(candidates), 0
    kept = [candidate for candidate in candidates if candidate.score >= floor]
    return kept, len(candidates) - len(kept)
