"""A network on a device, and how windows of tokens are laid out as one batch for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from serving.gpu.networks.buckets import Bucket

Forward = Callable[[Tensor, Tensor], Tensor]
"""Ids (rows, longest) and lengths (rows,) to float32 (rows, width), on one device."""

Window = Sequence[int]
"""The tokens of a row, at least one."""

Rows = Tensor
"""float32 (rows, width), on the device that computes them. Those of `Passes` are complete; those
of a `Network` on an accelerator may still be being computed."""

PackedBatch = NDArray[np.int32]
"""int32 (rows, 1 + length): the length of a row, then its tokens, then zeros.

So lengths and tokens are copied to the device at once.
"""


@dataclass(frozen=True, slots=True)
class Network:
    """A network of padded rows, and the device of its weights."""

    forward: Forward
    device: torch.device

    @torch.inference_mode()
    def rows(self, windows: Sequence[Window]) -> Rows:
        batch = torch.from_numpy(packed(windows, shape_of(windows))).to(self.device)
        return self.forward(batch[:, 1:], batch[:, 0])


def shape_of(windows: Sequence[Window]) -> Bucket:
    """The smallest shape that holds the windows."""
    return Bucket(len(windows), max(map(len, windows)))


def packed(windows: Sequence[Window], bucket: Bucket) -> PackedBatch:
    """Windows in a shape that holds them; rows without a window have one token, 0."""
    batch = np.zeros((bucket.rows, 1 + bucket.length), np.int32)
    batch[:, 0] = 1
    for row, window in zip(batch, windows, strict=False):
        row[0] = len(window)
        row[1 : 1 + len(window)] = window
    return batch
