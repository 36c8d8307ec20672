"""Runs a network over batches of windows: in recorded shapes, or in their own.

This module decides which; `cuda_graphs` records and replays on CUDA.
"""

from __future__ import annotations

import logging
import math
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from serving.gpu.networks.batches import Network, PackedBatch, Rows, Window, packed, shape_of
from serving.gpu.networks.buckets import Bucket, BucketPlan
from serving.gpu.networks.cuda_graphs import CudaGraphs
from serving.gpu.networks.errors import DeviceMemoryError

logger = logging.getLogger(__name__)

CPU_TOKENS = 512
"""Of a pass on a CPU, which gains nothing from more."""

ACCELERATOR_TOKENS = 16_384
"""Of a pass on any other device: it saturates the largest, and bounds the memory of activations
(0.8 GB at the widest point of an 8B)."""

BUCKET_TOKENS = 4096
"""The most tokens of a recorded shape; with a 0.6B they keep an H100 busy for 5 ms."""

RECORDED_S = 0.02
"""The longest pass worth recording, measured without recording. Launching the 400 to 510 kernels of
a Qwen3 takes a few milliseconds. In a pass several times as long, each kernel is queued before the
device is ready for it, so recording saves nothing. The limit also bounds the cost at start-up: 211
shapes, each run twice to be recorded, take 9 s at most. By calculation, not measurement, an 8B has
about 120 such shapes on an H100, and none on a GB10."""


class Passes(Protocol):
    """A network on a device. One thread uses it at a time."""

    @property
    def token_budget(self) -> int:
        """The most tokens of a batch, padding included; one window may have more."""

    def run(self, windows: Sequence[Window]) -> Rows:
        """Makes one row per window, in their order; later passes do not overwrite them.

        Args:
            windows: At least one; padded to the longest, within the budget.

        Raises:
            DeviceMemoryError: The device is out of memory.
        """


class GraphDevice(Protocol):
    """A device that can record a pass of a shape and replay it. One thread uses it at a time."""

    def run(self, windows: Sequence[Window]) -> Rows:
        """Runs a batch of any shape, kernel by kernel.

        Raises:
            DeviceMemoryError: The device is out of memory.
        """

    def capture(self, bucket: Bucket) -> None:
        """Records a pass of a shape.

        Raises:
            DeviceMemoryError: The device is out of memory; its state is unchanged.
        """

    def replay(self, bucket: Bucket, batch: PackedBatch) -> Rows:
        """Runs a batch of exactly this shape, which was captured before."""


class DirectPasses:
    """`Passes` on a CPU: each batch in its own shape."""

    def __init__(self, network: Network, token_budget: int = CPU_TOKENS) -> None:
        self._network = network
        self.token_budget = token_budget

    def run(self, windows: Sequence[Window]) -> Rows:
        return self._network.rows(windows)


class BucketedPasses:
    """`Passes` on a device that records shapes; other batches are run in their own shape.

    Shapes with long passes are not recorded. If memory is short, fewer shapes are recorded and
    batches are smaller; both are logged. The largest batch is run once after recording, which
    proves that it fits in addition to the recorded shapes and reserves its memory.

    Args:
        device: Runs the network.
        plan: The shapes to record, as far as time and memory allow.
        token_budget: The desired token budget.
        clock: Monotonic seconds.

    Raises:
        DeviceMemoryError: Not even the longest window alone fits.
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
        self.captured = _captured(device, plan.buckets, clock)
        self.token_budget = _fitting_budget(device, plan.window, token_budget)

    def run(self, windows: Sequence[Window]) -> Rows:
        shape = shape_of(windows)
        bucket = self._plan.choose(shape.rows, shape.length)
        if bucket is None or bucket not in self.captured:
            return self._device.run(windows)
        return self._device.replay(bucket, packed(windows, bucket))[: len(windows)]


def tokens_of_a_pass(device: torch.device) -> int:
    """The desired token budget of a device, padding included."""
    return CPU_TOKENS if device.type == "cpu" else ACCELERATOR_TOKENS


def open_passes(network: Network, width: int, window: int) -> Passes:
    """Prepares a network for its device: recorded shapes on CUDA, none elsewhere.

    Args:
        network: The network.
        width: Of its rows.
        window: The most tokens of a row.

    Raises:
        DeviceMemoryError: The longest window does not fit the device.
    """
    if network.device.type != "cuda":
        return DirectPasses(network)
    plan = BucketPlan(token_budget=BUCKET_TOKENS, window=window)
    return BucketedPasses(CudaGraphs(network, width, plan.buckets), plan)


def _fitting_budget(device: GraphDevice, window: int, wanted: int) -> int:
    """The tokens of the largest batch that fits the device, found by halving."""
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
                "batches limited to fewer tokens than planned: out of device memory",
                extra={"planned_tokens": wanted, "tokens": bucket.tokens},
            )
        return bucket.tokens


def _captured(
    device: GraphDevice, planned: Sequence[Bucket], clock: Callable[[], float]
) -> frozenset[Bucket]:
    """Records the worthwhile shapes, the largest first."""
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
            "fewer CUDA graphs captured than planned: out of device memory",
            extra={"planned": len(worthwhile), "recorded": len(captured)},
        )
    logger.info(
        "CUDA graphs captured",
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
    """The shapes whose pass takes at most `RECORDED_S`, in the order of the plan."""

    def seconds(bucket: Bucket) -> float:
        windows = [[0] * bucket.length] * bucket.rows
        try:
            # The first pass of a shape loads kernels and is not timed.
            device.run(windows)
            started = clock()
            device.run(windows)
        except DeviceMemoryError:
            return math.inf
        return clock() - started

    # Times increase with the size, so a binary search needs to measure only a few.
    by_size = planned[::-1]
    return by_size[: bisect_right(by_size, RECORDED_S, key=seconds)][::-1]
