"""A thread that calls cuVS, and what its failures mean.

A handle of cuVS's resources, with the stream on it, is for one thread, and CUDA's current device
and stream are a thread's own. So a lane is all three, and does one thing at a time. It waits for
the device at the end of each: an error of a kernel then belongs to the work that caused it, and
what is answered can be read by anyone, other lanes included.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from ctypes import byref
from typing import NamedTuple, Protocol, Self, TypeVar

import torch

from serving.adapters.vector_index.cuvs_c import Cuvs, CuvsError, MemoryPool
from serving.adapters.vector_index.errors import DeviceLostError, ListsError, OutOfMemoryError

T = TypeVar("T")


class Stream(Protocol):
    """The stream of a device that torch and cuVS both work on."""

    @property
    def handle(self) -> int:
        """Its `cudaStream_t`."""
        ...

    def enter(self) -> None:
        """Makes it the calling thread's own, and its device the current one."""
        ...

    def here(self) -> object:
        """What the calling thread has asked of the device so far."""
        ...

    def follow(self, here: object) -> None:
        """Does what comes next after that."""
        ...

    def hand_over(self, tensors: Iterable[torch.Tensor], here: object) -> None:
        """Lets the thread that called `here` use what was made on this stream."""
        ...


class _Here(NamedTuple):
    stream: torch.cuda.Stream
    reached: torch.cuda.Event


class CudaStream:
    """A `Stream` of a CUDA device, beside the default one.

    Args:
        device: The device.
        is_urgent: Whether its kernels go before those of other streams that wait.
    """

    def __init__(self, device: torch.device, *, is_urgent: bool = False) -> None:
        self._stream = torch.cuda.Stream(  # type: ignore[no-untyped-call]
            device, priority=-1 if is_urgent else 0
        )
        # "cuda" is no device that a thread can be set to; that of the stream has a number.
        self._device = self._stream.device

    @property
    def handle(self) -> int:
        """Its `cudaStream_t`."""
        return int(self._stream.cuda_stream)

    def enter(self) -> None:
        """Makes it the calling thread's own, and its device the current one."""
        torch.cuda.set_device(self._device)
        torch.cuda.set_stream(self._stream)

    def here(self) -> object:
        """What the calling thread has asked of the device so far."""
        stream = torch.cuda.current_stream(self._device)
        return _Here(stream, stream.record_event())

    def follow(self, here: object) -> None:
        """Does what comes next after that."""
        assert isinstance(here, _Here), "made by another stream; this is a bug"
        self._stream.wait_event(here.reached)

    def hand_over(self, tensors: Iterable[torch.Tensor], here: object) -> None:
        """Keeps their memory from new tensors while the caller's stream may read them."""
        assert isinstance(here, _Here), "made by another stream; this is a bug"
        for tensor in tensors:
            tensor.record_stream(here.stream)


class Streams(NamedTuple):
    """Where lists are searched, and where they are made."""

    searching: Stream
    building: Stream

    @classmethod
    def of(cls, device: torch.device) -> Self:
        """Streams of a CUDA device; a search need not wait for the kernels of a training."""
        return cls(CudaStream(device, is_urgent=True), CudaStream(device))


class Lane:
    """A thread with a stream and a handle of resources, which does one thing after another.

    Args:
        cuvs: The library.
        stream: Made for this lane alone.
        pool: Of the process, if this is its first lane.
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
            self._thread.submit(self._told, lambda: self._begin(pool), "the memory pool").result()
        except BaseException:
            self._thread.shutdown()
            raise

    def _begin(self, pool: MemoryPool) -> None:
        self._stream.enter()
        self._cuvs.enable_pool(pool, self._stream.enter)
        self._cuvs.call("cuvsResourcesCreate", byref(self._resources))
        self._cuvs.call("cuvsStreamSet", self._resources, self._stream.handle)
        self.wait()

    @property
    def resources(self) -> ctypes.c_size_t:
        """The handle, for work on the lane."""
        return self._resources

    def call(self, name: str, *arguments: object) -> None:
        """Calls, within work, a function that takes the handle before its other arguments."""
        self._cuvs.call(name, self._resources, *arguments)

    def run(self, work: Callable[[], T], what: str) -> T:
        """Does the work on the lane after what this thread asked of the device, and waits.

        Args:
            work: Calls torch and cuVS. Tensors in what it returns, a tuple, may be used at once.
            what: What may not fit, as `OutOfMemoryError` names it.

        Raises:
            OutOfMemoryError: It did not fit.
            DeviceLostError: The device failed, now or earlier, in a way that stays.
            ListsError: cuVS refused.
        """
        self._refuse_if_lost()
        here = self._stream.here()
        return self._thread.submit(self._told, lambda: self._done(work, here), what).result()

    def _done(self, work: Callable[[], T], here: object) -> T:
        self._refuse_if_lost()
        self._stream.follow(here)
        made = work()
        self.wait()
        if isinstance(made, tuple):
            self._stream.hand_over((each for each in made if isinstance(each, torch.Tensor)), here)
        return made

    def wait(self) -> None:
        """Waits, within work, for the device to have done what it was asked."""
        self.call("cuvsStreamSync")

    def _told(self, work: Callable[[], T], what: str) -> T:
        """Does work and puts what fails into the caller's terms."""
        try:
            return work()
        except torch.OutOfMemoryError as error:
            raise OutOfMemoryError(what) from error
        except torch.AcceleratorError as error:
            # The name of CUDA's error is in the second line.
            text = " ".join(str(error).splitlines()[:2])
            raise self._told_of(CuvsError(text), what) from error
        except CuvsError as error:
            raise self._told_of(error, what) from error

    def _told_of(self, error: CuvsError, what: str) -> ListsError:
        if error.is_memory:
            return OutOfMemoryError(what)
        if error.ends_context or (not error.names_cuda and not self._works()):
            self._cuvs.lost = str(error)
            return DeviceLostError(self._cuvs.lost)
        return ListsError(str(error))

    def _works(self) -> bool:
        """Whether the device still does anything, where an error does not say."""
        try:
            self.wait()
        except CuvsError:
            return False
        return True

    def _refuse_if_lost(self) -> None:
        if self._cuvs.lost is not None:
            raise DeviceLostError(self._cuvs.lost)

    @property
    def is_lost(self) -> bool:
        """Whether the device failed in a way that stays, on whichever lane."""
        return self._cuvs.lost is not None

    def close(self) -> None:
        """Ends the thread and frees the handle. Lists are closed before."""
        if not self.is_lost:
            self._thread.submit(self._told, self._end, "closing").result()
        self._thread.shutdown()

    def _end(self) -> None:
        self.wait()
        self._cuvs.call("cuvsResourcesDestroy", self._resources)
