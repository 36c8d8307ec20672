"""A thread that calls cuVS, and the translation of its failures.

A cuVS resources handle, with the stream set on it, belongs to one thread, and CUDA's current
device and stream are per thread. A worker owns all three and runs one task at a time. It
synchronises with the device after each task: a kernel's error is then attributed to the task that
caused it, and results may be read by any thread, including other workers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from ctypes import byref
from typing import NamedTuple, Protocol, Self, TypeVar

import torch

from serving.adapters.vector_index.lists.cuvs_c import Cuvs, CuvsError, MemoryPool
from serving.adapters.vector_index.lists.errors import (
    ListsDeviceLostError,
    ListsError,
    OutOfMemoryError,
)

T = TypeVar("T")


class Stream(Protocol):
    """A device stream that torch and cuVS both work on.

    A `position` is what `current` returned: a point in the calling thread's own stream.
    """

    @property
    def handle(self) -> int:
        """The stream's `cudaStream_t`."""
        ...

    def enter(self) -> None:
        """Makes this the calling thread's current stream, and its device the current device."""
        ...

    def current(self) -> object:
        """The position of the work that the calling thread has queued so far."""
        ...

    def wait_for(self, position: object) -> None:
        """Orders later work on this stream after the position."""
        ...

    def share(self, tensors: Iterable[torch.Tensor], position: object) -> None:
        """Lets the thread that owns the position use tensors allocated on this stream."""
        ...


class _Position(NamedTuple):
    stream: torch.cuda.Stream
    reached: torch.cuda.Event


class CudaStream:
    """A `Stream` of a CUDA device, distinct from the default stream.

    Args:
        device: The device.
        is_urgent: Whether its kernels take priority over those of other streams.
    """

    def __init__(self, device: torch.device, *, is_urgent: bool = False) -> None:
        self._stream = torch.cuda.Stream(  # type: ignore[no-untyped-call]
            device, priority=-1 if is_urgent else 0
        )
        # `device` may be "cuda" without an index, which `set_device` rejects.
        self._device = self._stream.device

    @property
    def handle(self) -> int:
        return int(self._stream.cuda_stream)

    def enter(self) -> None:
        torch.cuda.set_device(self._device)
        torch.cuda.set_stream(self._stream)

    def current(self) -> object:
        stream = torch.cuda.current_stream(self._device)
        return _Position(stream, stream.record_event())

    def wait_for(self, position: object) -> None:
        assert isinstance(position, _Position), "made by another stream; this is a bug"
        self._stream.wait_event(position.reached)

    def share(self, tensors: Iterable[torch.Tensor], position: object) -> None:
        """Prevents reuse of the tensors' memory while the caller's stream may read it."""
        assert isinstance(position, _Position), "made by another stream; this is a bug"
        for tensor in tensors:
            tensor.record_stream(position.stream)


class Streams(NamedTuple):
    """One stream for searches, and one for training and extending lists."""

    searching: Stream
    building: Stream

    @classmethod
    def of(cls, device: torch.device) -> Self:
        """Opens streams of a CUDA device; searches do not wait for training kernels."""
        return cls(CudaStream(device, is_urgent=True), CudaStream(device))


class CuvsWorker:
    """A thread with a stream and a resources handle, which runs one task at a time.

    Args:
        cuvs: The library.
        stream: Used by this worker alone.
        pool: The memory pool to enable, if this is the first worker of the process.
        name: Of the thread.

    Raises:
        ListsError: The device cannot be used.
    """

    def __init__(self, cuvs: Cuvs, stream: Stream, pool: MemoryPool, *, name: str = "cuvs") -> None:
        self._cuvs = cuvs
        self._stream = stream
        self._resources = ctypes.c_size_t()
        self._thread = ThreadPoolExecutor(1, name)
        try:
            self._thread.submit(self._begin, pool).result()
        except BaseException:
            self._thread.shutdown()
            raise

    def _begin(self, pool: MemoryPool) -> None:
        with self._translated_errors("the memory pool"):
            self._stream.enter()
            self._cuvs.enable_pool(pool, self._stream.enter)
            self._cuvs.call("cuvsResourcesCreate", byref(self._resources))
            self._cuvs.call("cuvsStreamSet", self._resources, self._stream.handle)
            self.wait()

    def call(self, name: str, *arguments: object) -> None:
        """Calls, from within a task, a function whose first argument is the handle."""
        self._cuvs.call(name, self._resources, *arguments)

    def run(self, work: Callable[[], T], what: str) -> T:
        """Runs a task after all device work that the calling thread has queued, and waits for it.

        Args:
            work: Calls torch and cuVS. Tensors in a returned tuple may be used at once.
            what: What may not fit, as `OutOfMemoryError` names it.

        Raises:
            OutOfMemoryError: It did not fit.
            ListsDeviceLostError: The device has failed permanently, now or earlier.
            ListsError: cuVS reported another error.
        """
        self._require_device()
        position = self._stream.current()
        return self._thread.submit(self._run, work, what, position).result()

    def _run(self, work: Callable[[], T], what: str, position: object) -> T:
        with self._translated_errors(what):
            self._require_device()
            self._stream.wait_for(position)
            made = work()
            self.wait()
            if isinstance(made, tuple):
                tensors = (each for each in made if isinstance(each, torch.Tensor))
                self._stream.share(tensors, position)
            return made

    def wait(self) -> None:
        """Synchronises with the device, from within a task."""
        self.call("cuvsStreamSync")

    @contextmanager
    def _translated_errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except torch.OutOfMemoryError as error:
            raise OutOfMemoryError(what) from error
        except torch.AcceleratorError as error:
            # The name of CUDA's error is in the second line.
            text = " ".join(str(error).splitlines()[:2])
            raise self._translated(CuvsError(text), what) from error
        except CuvsError as error:
            raise self._translated(error, what) from error

    def _translated(self, error: CuvsError, what: str) -> ListsError:
        if error.is_memory:
            return OutOfMemoryError(what)
        if error.ends_context or (not error.names_cuda and not self._device_responds()):
            self._cuvs.lost = str(error)
            return ListsDeviceLostError(self._cuvs.lost)
        return ListsError(str(error))

    def _device_responds(self) -> bool:
        """Whether the device still works, where the error itself does not say."""
        try:
            self.wait()
        except CuvsError:
            return False
        return True

    def _require_device(self) -> None:
        if self._cuvs.lost is not None:
            raise ListsDeviceLostError(self._cuvs.lost)

    @property
    def is_lost(self) -> bool:
        """Whether the device has failed permanently, on any worker."""
        return self._cuvs.lost is not None

    def close(self) -> None:
        """Ends the thread and frees the handle. Lists must be closed before."""
        if not self.is_lost:
            self._thread.submit(self._end).result()
        self._thread.shutdown()

    def _end(self) -> None:
        with self._translated_errors("closing"):
            self.wait()
            self._cuvs.call("cuvsResourcesDestroy", self._resources)
