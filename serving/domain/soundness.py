"""Checks that vectors can be compared: they must be finite and not zero."""

from __future__ import annotations

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
