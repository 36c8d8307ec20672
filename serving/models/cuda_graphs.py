"""Passes on CUDA: recorded as graphs, so that one call launches all kernels of a pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from serving.models.buckets import Bucket
from serving.models.errors import DeviceMemoryError
from serving.models.passes import Network, PackedBatch, Rows, Window, packed


class CudaGraphs:
    """A `GraphDevice` over CUDA graphs, which share a memory pool and the buffers at both ends.

    They can share them since a pass is over before the next begins. All work is on a stream of
    its own, so the thread that captures may be another than the one that replays.

    Args:
        network: The network, on a CUDA device. It must read nothing back from it.
        width: Of its rows.
        buckets: The shapes that may be captured.
    """

    def __init__(self, network: Network, width: int, buckets: Sequence[Bucket]) -> None:
        device = network.device
        self._network = network
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()
        self._done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._graphs: dict[Bucket, torch.cuda.CUDAGraph] = {}
        cells = max((_cells(bucket) for bucket in buckets), default=0)
        rows = max((bucket.rows for bucket in buckets), default=0)
        self._staged = torch.empty(cells, dtype=torch.int32, pin_memory=True)
        self._input = torch.empty(cells, dtype=torch.int32, device=device)
        self._output = torch.empty((rows, width), device=device)

    def run(self, windows: Sequence[Window]) -> Rows:
        """Runs a batch of any shape, kernel by kernel."""
        with memory_told(self._device), torch.cuda.stream(self._stream):
            return self._computed(self._network.rows(windows))

    @torch.inference_mode()
    def capture(self, bucket: Bucket) -> None:
        """Records a pass of a shape."""
        graph = torch.cuda.CUDAGraph()
        with memory_told(self._device), torch.cuda.stream(self._stream):
            self._put(packed([[0]], bucket))
            # Kernels are loaded, and cuBLAS takes its workspace, at the first pass: neither
            # can be recorded. It also tells of memory that is short before a capture does.
            self._pass(bucket)
            with torch.cuda.graph(
                graph,
                pool=self._pool,
                stream=self._stream,
                # Others may use the device meanwhile, from threads of their own.
                capture_error_mode="thread_local",
            ):
                self._pass(bucket)
        self._graphs[bucket] = graph

    @torch.inference_mode()
    def replay(self, bucket: Bucket, batch: PackedBatch) -> Rows:
        """Runs a batch of exactly the shape, which was captured."""
        with torch.cuda.stream(self._stream):
            self._put(batch)
            self._graphs[bucket].replay()
            # The buffer is for the next pass.
            return self._computed(self._output[: bucket.rows].clone())

    def _computed(self, rows: Rows) -> Rows:
        """Waits for the stream, without the interpreter's lock, so that other threads run on."""
        self._done.record(self._stream)
        self._done.synchronize()
        return rows

    def _put(self, batch: PackedBatch) -> None:
        """Copies a batch to the device, from pinned memory and without waiting for it."""
        staged = self._staged[: batch.size]
        staged.copy_(torch.from_numpy(batch).view(-1))
        self._input[: batch.size].copy_(staged, non_blocking=True)

    def _pass(self, bucket: Bucket) -> None:
        cells = self._input[: _cells(bucket)].view(bucket.rows, -1)
        self._output[: bucket.rows].copy_(self._network.forward(cells[:, 1:], cells[:, 0]))


def _cells(bucket: Bucket) -> int:
    """Of a packed batch: a row has one for its length beside those of its tokens."""
    return bucket.rows * (1 + bucket.length)


@contextmanager
def memory_told(device: torch.device) -> Iterator[None]:
    """Turns torch's want of memory into ours, and gives back what it had taken for the work."""
    try:
        yield
    except RuntimeError as error:
        # Ending a capture that ran out of memory fails in its turn, and hides why.
        causes = (error, error.__context__)
        if not any(isinstance(cause, torch.OutOfMemoryError) for cause in causes):
            raise
        torch.cuda.empty_cache()
        raise DeviceMemoryError(f"out of memory on {device}") from error
