"""Comparison of two rankings of one question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from serving.domain.items.records import ItemId


@dataclass(frozen=True, slots=True)
class RankChange:
    """The ranks of an item in two rankings, from 1; None where it is missing."""

    item: ItemId
    left: int | None
    right: int | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """How far two rankings agree.

    `overlap` is the Jaccard similarity of their items, 0 to 1; 1 if both are empty.
    """

    overlap: float
    changes: tuple[RankChange, ...]


def compare(left: Sequence[ItemId], right: Sequence[ItemId]) -> Comparison:
    """Compares two rankings: the items of `left` in order, then those only in `right`."""
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
