"""A vector that stays on the device that computed it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


class DeviceVector:
    """A vector on its device. NumPy and pickle convert it to an array on the host.

    The tensor is float32 (dimension,), complete, so that any stream may read it. The caller has
    checked that it is finite and not zero, which requires a synchronisation.
    """

    __slots__ = ("_on_host", "tensor")

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self._on_host: NDArray[np.float32] | None = None

    def __len__(self) -> int:
        return len(self.tensor)

    def __array__(
        self, dtype: np.dtype[np.float32] | None = None, /, *, copy: bool | None = None
    ) -> NDArray[np.float32]:
        if self._on_host is None:
            # Once: each copy waits for the device, and a question is searched for several times.
            self._on_host = self.tensor.cpu().numpy()
        values: NDArray[np.float32] = np.asarray(self._on_host, dtype)
        return values.copy() if copy else values

    def __reduce_ex__(self, protocol: Any) -> str | tuple[Any, ...]:
        return np.asarray(self).__reduce_ex__(protocol)
