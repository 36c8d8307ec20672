"""Runs a network over batches of windows: in shapes prepared beforehand, or as they come.

The decisions are here and know no device; `cuda_graphs` carries them out on CUDA.
"""

from __future__ import annotations

import logging
import math
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from serving.models.buckets import Bucket, BucketPlan
from serving.models.errors import DeviceMemoryError

logger = logging.getLogger(__name__)

Forward = Callable[[Tensor, Tensor], Tensor]
"""Ids (rows, longest) and lengths (rows,) to float32 (rows, width), on one device."""

JoinedForward = Callable[[Tensor, Tensor, Tensor, int], Tensor]
"""The same of rows one after the other: ids (tokens,), the position of each token in its row,
int32 (rows + 1,) where each begins and the last ends, and the tokens of the longest."""

Window = Sequence[int]
"""The tokens of a row, at least one."""

Rows = Tensor
"""float32 (rows, width), on the device that computes them. Those of `Passes` are computed to the
end; those of a `Network` may not be yet, on an accelerator."""

PackedBatch = NDArray[np.int32]
"""int32 (rows, 1 + length): the count of a row's tokens, then these, then zeros.

Lengths and tokens go to the device in one copy.
"""

CPU_TOKENS = 512
"""Of a pass on a CPU, which gains nothing from a larger one."""

ACCELERATOR_TOKENS = 16_384
"""Of a pass on any other device: it fills the largest, and bounds the memory for what is
between the layers (0.8 GB for the widest of an 8B)."""

BUCKET_TOKENS = 4096
"""Of a prepared shape at most; so many tokens of a 0.6B keep an H100 busy for 5 ms."""

RECORDED_S = 0.02
"""What a pass of a prepared shape takes at most, kernel by kernel. To launch the 400 to 510
kernels of a Qwen3 takes a few milliseconds: in a pass that takes several times as long, each is
there before the device is ready for it, and recording it saves nothing. It bounds what all
shapes cost at the start as well: 211 of them, each run twice to be recorded, take 9 s at most.
By arithmetic, not yet by measurement, an 8B has some 120 of them on an H100, and none on a GB10."""


@dataclass(frozen=True, slots=True)
class Network:
    """A network on a device, and how it is given a batch of no prepared shape.

    Args:
        forward: Of padded rows.
        device: Where its weights are.
        joined: Of rows one after the other, if a batch is to be run so; it then has no padding.
    """

    forward: Forward
    device: torch.device
    joined: JoinedForward | None = None

    @torch.inference_mode()
    def rows(self, windows: Sequence[Window]) -> Rows:
        """Makes one row per window."""
        return self._of_padded(windows) if self.joined is None else self._of_joined(windows)

    def _of_padded(self, windows: Sequence[Window]) -> Tensor:
        batch = torch.from_numpy(packed(windows, shape_of(windows))).to(self.device)
        return self.forward(batch[:, 1:], batch[:, 0])

    def _of_joined(self, windows: Sequence[Window]) -> Tensor:
        assert self.joined is not None, "rows are joined by a network that can: this is a bug"
        lengths = [len(window) for window in windows]
        places = [place for length in lengths for place in range(length)]
        ids, positions, starts = (
            torch.tensor(each, dtype=torch.int32, device=self.device)
            for each in ([*chain.from_iterable(windows)], places, [*accumulate(lengths, initial=0)])
        )
        return self.joined(ids, positions, starts, max(lengths))


class Passes(Protocol):
    """A network on a device. One thread uses it at a time."""

    @property
    def token_budget(self) -> int:
        """The most tokens of a batch, padding included; one window may have more."""
        ...

    def run(self, windows: Sequence[Window]) -> Rows:
        """Makes one row per window, in their order; later passes leave them alone.

        Args:
            windows: At least one; padded to the longest they keep to the budget.

        Raises:
            DeviceMemoryError: The device has no memory left.
        """
        ...


class GraphDevice(Protocol):
    """A device that can record a pass of a shape and replay it. One thread uses it at a time."""

    def run(self, windows: Sequence[Window]) -> Rows:
        """Runs a batch of any shape, kernel by kernel.

        Raises:
            DeviceMemoryError: The device has no memory left.
        """
        ...

    def capture(self, bucket: Bucket) -> None:
        """Records a pass of a shape.

        Raises:
            DeviceMemoryError: There is no memory for it; the device is as it was before.
        """
        ...

    def replay(self, bucket: Bucket, batch: PackedBatch) -> Rows:
        """Runs a batch of exactly the shape, which was captured."""
        ...


class DirectPasses:
    """`Passes` on a CPU: each batch in its own shape."""

    def __init__(self, network: Network, token_budget: int = CPU_TOKENS) -> None:
        self._network = network
        self._token_budget = token_budget

    @property
    def token_budget(self) -> int:
        """The most tokens of a batch."""
        return self._token_budget

    def run(self, windows: Sequence[Window]) -> Rows:
        """Makes one row per window, in their order."""
        return self._network.rows(windows)


class BucketedPasses:
    """`Passes` on a device that records shapes; a batch beyond them is run as it comes.

    Shapes whose pass takes long are not recorded. Where memory is short it makes do with fewer
    shapes, and with smaller batches, and logs what it dropped. The largest batch is run once
    when all shapes are recorded: so it is known to fit beside them, and the device keeps its
    memory for it.

    Args:
        device: What runs the network.
        plan: The shapes to record, as far as time and memory allow.
        token_budget: The most tokens of a batch that are wanted.
        clock: Monotonic seconds.

    Raises:
        DeviceMemoryError: There is no memory even for the longest window alone.
    """

    def __init__(
        self,
        device: GraphDevice,
        plan: BucketPlan,
        token_budget: int = ACCELERATOR_TOKENS,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._device = device
        self._plan = plan
        self._captured = _captured(device, plan.buckets, clock)
        self._token_budget = _fitting_budget(device, plan.window, token_budget)

    @property
    def token_budget(self) -> int:
        """The most tokens of a batch."""
        return self._token_budget

    @property
    def captured(self) -> frozenset[Bucket]:
        """The shapes that were recorded."""
        return self._captured

    def run(self, windows: Sequence[Window]) -> Rows:
        """Makes one row per window, in their order."""
        shape = shape_of(windows)
        bucket = self._plan.choose(shape.rows, shape.length)
        if bucket is None or bucket not in self._captured:
            return self._device.run(windows)
        return self._device.replay(bucket, packed(windows, bucket))[: len(windows)]


def tokens_of_a_pass(device: torch.device) -> int:
    """The most tokens of a pass that are wanted on a device, padding included."""
    return CPU_TOKENS if device.type == "cpu" else ACCELERATOR_TOKENS


def shape_of(windows: Sequence[Window]) -> Bucket:
    """The smallest shape that holds the windows."""
    return Bucket(len(windows), max(map(len, windows)))


def packed(windows: Sequence[Window], bucket: Bucket) -> PackedBatch:
    """Windows in a shape that holds them; rows without a window are of one token, 0."""
    batch = np.zeros((bucket.rows, 1 + bucket.length), np.int32)
    batch[:, 0] = 1
    for row, window in zip(batch, windows, strict=False):
        row[0] = len(window)
        row[1 : 1 + len(window)] = window
    return batch


def open_passes(network: Network, width: int, window: int) -> Passes:
    """The way to run a network on its device: recorded on CUDA, directly elsewhere.

    Args:
        network: The network.
        width: Of its rows.
        window: The most tokens of a row.

    Raises:
        DeviceMemoryError: The device has no memory for the longest window.
    """
    if network.device.type != "cuda":
        return DirectPasses(network)
    from serving.models.cuda_graphs import CudaGraphs

    plan = BucketPlan(token_budget=BUCKET_TOKENS, window=window)
    return BucketedPasses(CudaGraphs(network, width, plan.buckets), plan)


def _fitting_budget(device: GraphDevice, window: int, wanted: int) -> int:
    """The tokens of the largest batch that the device has memory for, halved until it does."""
    rows = max(1, wanted // window)
    while True:
        bucket = Bucket(rows, window)
        try:
            device.run([[0] * window] * rows)
        except DeviceMemoryError:
            if rows == 1:
                raise
            rows //= 2
            continue
        if bucket.tokens < wanted - window:
            logger.warning(
                "batches are smaller than planned: out of device memory",
                extra={"planned_tokens": wanted, "tokens": bucket.tokens},
            )
        return bucket.tokens


def _captured(
    device: GraphDevice, planned: Sequence[Bucket], clock: Callable[[], float]
) -> frozenset[Bucket]:
    """Records the shapes that are worth it, the largest of them first."""
    started = clock()
    worthwhile = _worthwhile(device, planned, clock)
    captured = []
    for bucket in worthwhile:
        try:
            device.capture(bucket)
        except DeviceMemoryError:
            continue
        captured.append(bucket)
    if len(captured) < len(worthwhile):
        logger.warning(
            "fewer shapes are recorded than planned: out of device memory",
            extra={"planned": len(worthwhile), "recorded": len(captured)},
        )
    logger.info(
        "shapes are recorded",
        extra={
            "planned": len(planned),
            "worthwhile": len(worthwhile),
            "recorded": len(captured),
            "seconds": round(clock() - started, 2),
        },
    )
    return frozenset(captured)


def _worthwhile(
    device: GraphDevice, planned: Sequence[Bucket], clock: Callable[[], float]
) -> Sequence[Bucket]:
    """Those whose pass takes no longer than a recorded one may, in the order of the plan."""

    def seconds(bucket: Bucket) -> float:
        windows = [[0] * bucket.length] * bucket.rows
        try:
            # Kernels are loaded at the first pass of a shape.
            device.run(windows)
            started = clock()
            device.run(windows)
        except DeviceMemoryError:
            return math.inf
        return clock() - started

    # From the smallest to the largest passes take longer, so a few of them tell of all.
    by_size = planned[::-1]
    return by_size[: bisect_right(by_size, RECORDED_S, key=seconds)][::-1]
