"""Runs a network over batches of windows: in recorded shapes, or in their own.

This module decides which; `cuda_graphs` records and replays on CUDA.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
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
"""The most tokens of a recorded shape; with a 0.6B they keep an H200 busy for 8 ms, in which each
kernel is queued before the device is ready for it, so recording more saves nothing."""


class Passes(Protocol):
    """A network on a device. One thread uses it at a time."""

    @property
    def token_budget(self) -> int:
        """The most tokens of a batch, padding included; one window may have more."""

    def run(self, windows: Sequence[Window]) -> Rows:
        """Makes one row per window, in their order; later passes do not overwrite them.

        There is at least one; padded to the longest they are within the budget.

        Raises:
            DeviceMemoryError: The device is out of memory.
        """


class GraphDevice(Protocol):
    """A device that records a pass of a shape and replays it. One thread uses it at a time."""

    def run(self, windows: Sequence[Window]) -> Rows:
        """Runs a batch of any shape, kernel by kernel; raises DeviceMemoryError as `Passes` do."""

    def run_recorded(self, bucket: Bucket, batch: PackedBatch) -> Rows:
        """Runs a batch of exactly this shape; the first one is run directly, and recorded.

        If it raises DeviceMemoryError, the shape is not recorded.
        """


class DirectPasses:
    """`Passes` on a CPU: each batch in its own shape."""

    token_budget = CPU_TOKENS

    def __init__(self, network: Network) -> None:
        self._network = network

    def run(self, windows: Sequence[Window]) -> Rows:
        return self._network.rows(windows)


class BucketedPasses:
    """`Passes` on a device that records shapes when they are first used.

    Those of single questions are recorded at the start, so no caller waits for them. Batches that
    are longer than every shape, and those of shapes that found no memory, are run in their own
    shape. The largest batch is run at the start, which proves that it fits and reserves its memory;
    if memory is short, batches are smaller.

    Raises:
        DeviceMemoryError: Not even the longest window alone fits.
    """

    def __init__(
        self, device: GraphDevice, plan: BucketPlan, token_budget: int = ACCELERATOR_TOKENS
    ) -> None:
        self._device = device
        self._plan = plan
        self._beyond_memory: set[Bucket] = set()
        self.token_budget = _fitting_budget(device, plan.window, token_budget)
        for bucket in plan.of_questions:
            if bucket.tokens <= self.token_budget:
                self.run([[0] * bucket.length] * bucket.rows)

    def run(self, windows: Sequence[Window]) -> Rows:
        shape = shape_of(windows)
        bucket = self._plan.choose(shape.rows, shape.length)
        if bucket is None or bucket in self._beyond_memory:
            return self._device.run(windows)
        try:
            return self._device.run_recorded(bucket, packed(windows, bucket))[: len(windows)]
        except DeviceMemoryError:
            self._beyond_memory.add(bucket)
            logger.warning(
                "a shape of batches is not recorded: out of device memory",
                extra={"rows": bucket.rows, "tokens": bucket.tokens},
            )
            return self._device.run(windows)


def use_threads(device: str, threads: int) -> None:
    """Sets the threads of a pass on the CPU, for this thread and those that use torch later.

    For another device the number is left alone: it is a guard of compiled code, which a thread with
    another number would compile again in the middle of a question.
    """
    if device.startswith("cpu"):
        torch.set_num_threads(threads)


def tokens_of_a_pass(device: torch.device) -> int:
    """The desired token budget of a device, padding included."""
    return CPU_TOKENS if device.type == "cpu" else ACCELERATOR_TOKENS


def open_passes(
    network: Network, width: int, window: int, *, recorded_tokens: int = BUCKET_TOKENS
) -> Passes:
    """Prepares a network for its device: recorded shapes on CUDA, none elsewhere.

    Raises DeviceMemoryError if the longest window does not fit the device.
    """
    if network.device.type != "cuda":
        return DirectPasses(network)
    plan = BucketPlan(token_budget=recorded_tokens, window=window)
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
