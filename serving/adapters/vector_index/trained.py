"""Inverted lists in use, with what is known of them since they were trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from serving.adapters.vector_index.inverted_lists import InvertedLists
from serving.domain.index_policy import CurvePoint


@dataclass(frozen=True, slots=True)
class Calibration:
    """How many lists to probe, and the curve that this was read from."""

    n_probes: int
    curve: tuple[CurvePoint, ...]

    @property
    def chosen(self) -> CurvePoint:
        """The point of the curve that is in use."""
        return next(point for point in self.curve if point.n_probes == self.n_probes)


@dataclass(frozen=True, eq=False)
class Trained:
    """Lists that views refer to, for as long as the last of them is searched.

    Args:
        lists: The lists; rows are added to them later.
        calibration: What probing them is worth.
        rows: How many there were at the training.
        skew: The largest list by the mean of all, at the training.
        at_s: When that was, on the index's clock.
    """

    lists: InvertedLists
    calibration: Calibration
    rows: int
    skew: float
    at_s: float


def skew_of(list_sizes: Sequence[int]) -> float:
    """The largest list by the mean of all; 1 if they are empty."""
    mean = sum(list_sizes) / len(list_sizes)
    return max(list_sizes) / mean if mean else 1.0
