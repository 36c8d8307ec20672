"""Vectors where they are stored: NumPy arrays on the host, torch tensors on a GPU.

Both index, slice and multiply alike; what differs is here. On the host nothing imports torch,
which a desk does not have.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = Any
"""A NumPy array or a torch tensor."""

HOST = "cpu"


def empty(rows: int, dimension: int, device: str) -> Array:
    """Memory for vectors, not initialised: float16 (rows, dimension)."""
    if device == HOST:
        return np.empty((rows, dimension), np.float16)
    import torch

    return torch.empty((rows, dimension), dtype=torch.float16, device=device)


class Place(NamedTuple):
    """The place of vectors: on `device`, but up to `host_rows` of them on the host."""

    device: str = HOST
    host_rows: int = 0

    def of(self, rows: int) -> str:
        """The device of an array with room for these rows."""
        return HOST if rows <= self.host_rows else self.device


def is_on_host(array: Array) -> bool:
    """Whether an array is NumPy's."""
    return isinstance(array, np.ndarray)


def on_device(values: NDArray[Any], device: Any) -> Array:
    """Values of the host as a tensor on a device."""
    import torch

    return torch.from_numpy(values).to(device)


def on_device_of(values: Array, other: Array) -> Array:
    """Values of the host or of the one device, on the side of another array."""
    if is_on_host(values) == is_on_host(other):
        return values
    return values.cpu().numpy() if is_on_host(other) else on_device(values, other.device)


def is_out_of_memory(error: Exception) -> bool:
    """Whether Python, NumPy or torch ran out of memory."""
    # By its name, since torch may not be there; and torch has no such class for the host.
    named = type(error).__name__ == "OutOfMemoryError"
    return isinstance(error, MemoryError) or named or "allocate memory" in str(error)


def is_device_error(error: Exception) -> bool:
    """Whether an accelerator failed, maybe for ever."""
    return type(error).__name__ == "AcceleratorError"
