"""Two orders of one question, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from serving.domain.records import ItemId


@dataclass(frozen=True, slots=True)
class RankChange:
    """Where an item is in each of two orders, from 1; None if it is not in one."""

    item: ItemId
    left: int | None
    right: int | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """How far two orders agree.

    `overlap` is what they share of all that either has, 0 to 1; 1 if both are empty.
    """

    overlap: float
    changes: tuple[RankChange, ...]


def compare(left: Sequence[ItemId], right: Sequence[ItemId]) -> Comparison:
    """Sets two orders side by side: the left one's items in its order, then the right one's own."""
    ranks_left = {item: rank for rank, item in enumerate(left, start=1)}
    ranks_right = {item: rank for rank, item in enumerate(right, start=1)}
    items = list(dict.fromkeys([*left, *right]))
    shared = ranks_left.keys() & ranks_right.keys()
    return Comparison(
        overlap=len(shared) / len(items) if items else 1.0,
        changes=tuple(
            RankChange(item, ranks_left.get(item), ranks_right.get(item)) for item in items
        ),
    )
