"""Passes recorded as CUDA graphs, so that one call launches all kernels of a pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from serving.gpu.networks.batches import Network, PackedBatch, Rows, Window
from serving.gpu.networks.buckets import Bucket
from serving.gpu.networks.errors import DeviceMemoryError


class CudaGraphs:
    """A `GraphDevice` over CUDA graphs, which share a memory pool, an input and an output buffer.

    Sharing is safe because a pass ends before the next begins. All work is on a dedicated stream,
    apart from that of other threads. The network is on a CUDA device and makes rows of `width`; its
    forward pass must not copy anything back to the host. `buckets` may be captured.
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
        with translated_memory_errors(self._device), torch.cuda.stream(self._stream):
            return self._computed(self._network.rows(windows))

    @torch.inference_mode()
    def run_recorded(self, bucket: Bucket, batch: PackedBatch) -> Rows:
        with translated_memory_errors(self._device), torch.cuda.stream(self._stream):
            self._put(batch)
            graph = self._graphs.get(bucket)
            if graph is None:
                # This pass also loads kernels and allocates the cuBLAS workspace, which cannot be
                # recorded, and reveals a lack of memory before the capture.
                self._pass(bucket)
                rows = self._computed(self._output[: bucket.rows].clone())
                self._graphs[bucket] = self._captured(bucket)
                return rows
            graph.replay()
            # Cloned, since the next pass overwrites the buffer.
            return self._computed(self._output[: bucket.rows].clone())

    def _captured(self, bucket: Bucket) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(
            graph,
            pool=self._pool,
            stream=self._stream,
            # Other threads may use the device during the capture.
            capture_error_mode="thread_local",
        ):
            self._pass(bucket)
        return graph

    def _computed(self, rows: Rows) -> Rows:
        """Waits for the stream with the GIL released."""
        self._done.record(self._stream)
        self._done.synchronize()
        return rows

    def _put(self, batch: PackedBatch) -> None:
        """Copies a batch to the device asynchronously, through pinned memory."""
        staged = self._staged[: batch.size]
        staged.copy_(torch.from_numpy(batch).view(-1))
        self._input[: batch.size].copy_(staged, non_blocking=True)

    def _pass(self, bucket: Bucket) -> None:
        cells = self._input[: _cells(bucket)].view(bucket.rows, -1)
        self._output[: bucket.rows].copy_(self._network.forward(cells[:, 1:], cells[:, 0]))


def _cells(bucket: Bucket) -> int:
    """The cells of a packed batch: each row has one for its length."""
    return bucket.rows * (1 + bucket.length)


@contextmanager
def translated_memory_errors(device: torch.device) -> Iterator[None]:
    """Raises `DeviceMemoryError` for torch's out-of-memory error, and empties torch's cache."""
    try:
        yield
    except RuntimeError as error:
        # Ending a capture that ran out of memory raises a second error, which hides the first.
        causes = (error, error.__context__)
        if not any(isinstance(cause, torch.OutOfMemoryError) for cause in causes):
            raise
        torch.cuda.empty_cache()
        raise DeviceMemoryError(f"out of memory on {device}") from error
