"""Which vectors may be compared: those that are finite and not zero."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def sound_rows(rows: NDArray[np.float32]) -> list[NDArray[np.float32] | None]:
    """Each row of float32 (n, dimension); None in the place of one that is not sound.

    They cannot be written to, since all who ask for the same vector get the same.
    """
    rows = rows.view()
    rows.flags.writeable = False
    lengths = np.linalg.norm(rows, axis=1)
    are_sound = np.isfinite(lengths) & (lengths > 0)
    return [row if sound else None for row, sound in zip(rows, are_sound.tolist(), strict=True)]
