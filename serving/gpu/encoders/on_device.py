"""Encoders whose query vectors stay on the device that computes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from serving.adapters.encoder.windows import (
    RunBatch,
    WindowEncoder,
    batches_by_length,
    encode_by_length,
)
from serving.adapters.vector_index.device_vector import DeviceVector
from serving.ports.embedding import Device, Embedding, TokenIds, Vectors

RunOnDevice = Callable[[Sequence[TokenIds]], torch.Tensor]
"""Windows to float32 (n, native dimension), of any length, on one device."""


class DeviceEncoder(WindowEncoder, ABC):
    """A `TextEncoder` in torch. A subclass sets `_device` before it encodes."""

    _device: Device

    def device(self) -> Device:
        return self._device

    def encode(self, windows: Sequence[TokenIds]) -> Vectors:
        return encode_by_length(
            windows, self._run_to_host, self._model.dimension, self._device.token_budget
        )

    def encode_documents(self, windows: Sequence[TokenIds]) -> Embedding:
        return Embedding(self.encode(windows))

    def encode_queries(self, windows: Sequence[TokenIds]) -> list[DeviceVector | None]:
        return vectors_by_length(
            windows, self._run, self._model.dimension, self._device.token_budget
        )

    @abstractmethod
    def _run(self, windows: Sequence[TokenIds]) -> torch.Tensor:
        """Runs one pass; see `RunOnDevice`."""

    def _run_to_host(self, windows: Sequence[TokenIds]) -> NDArray[np.float32]:
        return to_host(self._run)(windows)


def to_host(run: RunOnDevice) -> RunBatch:
    """The same forward pass with its rows copied to the host."""

    def to_array(windows: Sequence[TokenIds]) -> NDArray[np.float32]:
        rows: NDArray[np.float32] = run(windows).cpu().numpy()
        return rows

    return to_array


@torch.inference_mode()
def vectors_by_length(
    windows: Sequence[TokenIds], run: RunOnDevice, dimension: int, padded_tokens: int
) -> list[DeviceVector | None]:
    """Runs windows in batches of similar length; like `encode_by_length`, but on the device.

    Returns:
        One unit vector per window, in their order; None where the network's row is zero or not
        finite.
    """
    vectors: list[DeviceVector | None] = [None] * len(windows)
    for batch in batches_by_length([len(window) for window in windows], padded_tokens):
        rows = run([windows[index] for index in batch])[:, :dimension]
        # After truncation: a Matryoshka prefix of a unit vector is shorter than 1.
        lengths = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
        units = rows / lengths
        # The only copy to the host; it waits for all that was computed.
        sound = (torch.isfinite(lengths) & (lengths > 0)).flatten().tolist()
        for index, unit, is_sound in zip(batch, units, sound, strict=True):
            if is_sound:
                vectors[index] = DeviceVector(unit)
    return vectors
