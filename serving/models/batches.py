"""A network on a device, and how windows of tokens are laid out as one batch for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from serving.models.buckets import Bucket

Forward = Callable[[Tensor, Tensor], Tensor]
"""Ids (rows, longest) and lengths (rows,) to float32 (rows, width), on one device."""

JoinedForward = Callable[[Tensor, Tensor, Tensor, int], Tensor]
"""The same for concatenated rows: ids (tokens,), the position of each token in its row,
int32 (rows + 1,) offsets of the rows and the end, and the length of the longest row."""

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
    """A network on a device.

    Args:
        forward: Of padded rows.
        device: Where its weights are.
        joined: Of concatenated rows. If given, `rows` uses it, without padding.
    """

    forward: Forward
    device: torch.device
    joined: JoinedForward | None = None

    @torch.inference_mode()
    def rows(self, windows: Sequence[Window]) -> Rows:
        if self.joined is None:
            batch = torch.from_numpy(packed(windows, shape_of(windows))).to(self.device)
            return self.forward(batch[:, 1:], batch[:, 0])
        lengths = [len(window) for window in windows]
        places = [place for length in lengths for place in range(length)]
        ids, positions, starts = (
            torch.tensor(each, dtype=torch.int32, device=self.device)
            for each in ([*chain.from_iterable(windows)], places, [*accumulate(lengths, initial=0)])
        )
        return self.joined(ids, positions, starts, max(lengths))


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
