"""Inverted lists in use, with what was measured when they were trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from serving.adapters.vector_index.lists.inverted_lists import InvertedLists
from serving.ports.vector_index import CurvePoint


@dataclass(frozen=True, slots=True)
class Calibration:
    """The number of lists to probe, and the recall curve from which it was chosen."""

    n_probes: int
    curve: tuple[CurvePoint, ...]

    @property
    def chosen(self) -> CurvePoint:
        """The point of the curve at `n_probes`."""
        return next(point for point in self.curve if point.n_probes == self.n_probes)


@dataclass(frozen=True, eq=False)
class TrainedLists:
    """Lists that partition views refer to. They are closed after the last search that uses them.

    Args:
        lists: The lists; rows may be added after training.
        calibration: How many of them to probe.
        rows: The number of rows at training.
        skew: The skew of the lists at training, see `list_skew`.
        at_s: The time of training, on the index's clock.
    """

    lists: InvertedLists
    calibration: Calibration
    rows: int
    skew: float
    at_s: float


def list_skew(list_sizes: Sequence[int]) -> float:
    """The size of the largest list divided by the mean size; 1 if all are empty."""
    mean = sum(list_sizes) / len(list_sizes)
    return max(list_sizes) / mean if mean else 1.0
