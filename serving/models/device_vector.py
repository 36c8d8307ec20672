"""A vector that stays on the device that computed it, for whoever reads it there."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray


class ArrayLike(Protocol):
    """What numpy reads: float32 (dimension,)."""

    def __array__(self) -> NDArray[np.float32]:
        """Its values, on the host."""
        ...


class DeviceVector:
    """A vector on its device. To anybody else it is an array: to numpy, and to another process.

    Args:
        tensor: float32 (dimension,), computed to the end, so that any stream may read it. Finite
            and not zero: whoever makes one has looked, since to look takes a wait for the device.
    """

    __slots__ = ("tensor",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __len__(self) -> int:
        return len(self.tensor)

    def __array__(
        self, dtype: np.dtype[np.float32] | None = None, /, *, copy: bool | None = None
    ) -> NDArray[np.float32]:
        values: NDArray[np.float32] = np.asarray(self.tensor.cpu().numpy(), dtype)
        return values.copy() if copy else values

    def __reduce_ex__(self, protocol: Any) -> str | tuple[Any, ...]:
        return np.asarray(self).__reduce_ex__(protocol)


def tensor_of(vector: DeviceVector | ArrayLike, device: torch.device) -> torch.Tensor:
    """A vector as a tensor on a device: the same memory, if that is where it is.

    Returns:
        float32 (dimension,).
    """
    if isinstance(vector, DeviceVector):
        return vector.tensor.to(device)
    return torch.tensor(np.asarray(vector), dtype=torch.float32, device=device)
