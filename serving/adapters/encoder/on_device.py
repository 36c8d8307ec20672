"""From windows to the vectors of questions, which stay on the device that computes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from serving.adapters.encoder.windows import RunBatch
from serving.models.buckets import batches_by_length
from serving.models.device_vector import DeviceVector
from serving.ports import TokenIds

RunOnDevice = Callable[[Sequence[TokenIds]], torch.Tensor]
"""Windows to float32 (n, native dimension), of any length, on one device."""


def to_host(run: RunOnDevice) -> RunBatch:
    """The same forward pass, with its rows brought to the host."""

    def to_array(windows: Sequence[TokenIds]) -> NDArray[np.float32]:
        rows: NDArray[np.float32] = run(windows).cpu().numpy()
        return rows

    return to_array


@torch.inference_mode()
def vectors_by_length(
    windows: Sequence[TokenIds], run: RunOnDevice, dimension: int, padded_tokens: int
) -> list[DeviceVector | None]:
    """Runs windows in batches of like length; `encode_by_length` brings the rows to the host.

    Args:
        windows: In any order.
        run: The forward pass.
        dimension: Rows are truncated to it.
        padded_tokens: A pass holds at most so many, padding included.

    Returns:
        One of unit length for each window, in their order; None where the row of the network is
        not finite, or zero.
    """
    vectors: list[DeviceVector | None] = [None] * len(windows)
    for batch in batches_by_length([len(window) for window in windows], padded_tokens):
        rows = run([windows[index] for index in batch])[:, :dimension]
        # After truncation: a Matryoshka prefix of a unit vector is shorter than 1.
        lengths = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
        units = rows / lengths
        # The one thing that is brought to the host, and waits for all that was computed.
        sound = (torch.isfinite(lengths) & (lengths > 0)).flatten().tolist()
        for index, unit, is_sound in zip(batch, units, sound, strict=True):
            if is_sound:
                vectors[index] = DeviceVector(unit)
    return vectors
