"""Checks that vectors can be compared: they must be finite and not zero."""

from __future__ import annotations

from collections.abc import Sized

import numpy as np
from numpy.typing import NDArray


def sound_rows(rows: NDArray[np.float32]) -> list[NDArray[np.float32] | None]:
    """Splits float32 (n, dimension) into rows; None in place of a row that is zero or not finite.

    The rows are read-only, because several callers may share one vector.
    """
    rows = rows.view()
    rows.flags.writeable = False
    lengths = np.linalg.norm(rows, axis=1)
    are_sound = np.isfinite(lengths) & (lengths > 0)
    return [row if sound else None for row, sound in zip(rows, are_sound.tolist(), strict=True)]


def require_comparable(vector: Sized, dimension: int) -> None:
    """Raises ValueError for a vector of another dimension, or a zero or infinite one.

    What is no array is on a device, and was checked by its encoder.
    """
    require_dimension(len(vector), dimension)
    if isinstance(vector, np.ndarray) and not (np.isfinite(vector).all() and np.any(vector)):
        raise ValueError("the vector to search for is zero or not finite")


def require_dimension(given: int, dimension: int) -> None:
    """Raises ValueError for another dimension than that of an index."""
    if given != dimension:
        raise ValueError(f"vectors must have {dimension} dimensions, got {given}")
