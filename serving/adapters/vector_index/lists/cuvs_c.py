"""The part of the cuVS C API that inverted lists use; the only file that loads the library.

It is called through ctypes instead of the official bindings. Those hold the GIL during each call,
even a build of minutes; they pass the address of a Python integer as the stream, so the next call
crashes; and they leak the DLPack structs of each call (docs/gpu.md). ctypes releases the GIL around
a call, accepts any stream, and the structs are owned here.

The price is that struct layouts are declared a second time. `tests/support/cuvs_layouts.json`
holds those of the headers, and a test compares them.
"""

from __future__ import annotations

import ctypes
import functools
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future
from ctypes import POINTER, byref
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias

import torch

from serving.adapters.vector_index.lists.errors import ListsError

Version = tuple[int, int]
"""(26, 10) for cuVS 26.10.0: a patch release changes no layout."""

KNOWN_VERSIONS: tuple[Version, ...] = ((26, 6), (26, 10))
"""The versions whose headers match the structs below."""

SUCCESS = 1
INNER_PRODUCT = 6
NO_FILTER, BITSET = 0, 1
DL_CPU, DL_CUDA = 1, 2
DL_INT, DL_UNSIGNED, DL_FLOAT = 0, 1, 2
"""Enumerators of cuVS and of DLPack."""

CONTEXT_ENDING = frozenset(
    f"cudaError{name}"
    for name in (
        "Assert",
        "ContextIsDestroyed",
        "Contained",
        "DevicesUnavailable",
        "ECCUncorrectable",
        "ExternalDevice",
        "HardwareStackError",
        "IllegalAddress",
        "IllegalInstruction",
        "InvalidAddressSpace",
        "InvalidPc",
        "LaunchFailure",
        "LaunchTimeout",
        "MisalignedAddress",
        "MpsClientTerminated",
        "NvlinkUncorrectable",
        "TensorMemoryLeak",
    )
)
"""Errors after which every CUDA call of the process fails, according to the runtime's manual."""

SHORT_OF_MEMORY = re.compile(
    r"cudaErrorMemoryAllocation|out_of_memory|CUBLAS_STATUS_ALLOC_FAILED|std::bad_alloc$"
)
"""Messages of CUDA, RMM, cuBLAS and C++ about exhausted memory, as cuVS reports them.

RMM prefixes every failed allocation with `std::bad_alloc`, even one on a lost device; alone it
refers to host memory.
"""


class DLDevice(ctypes.Structure):
    """The device of a tensor."""

    _fields_ = (("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32))


class DLDataType(ctypes.Structure):
    """The element type of a tensor."""

    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class DLTensor(ctypes.Structure):
    """A tensor; contiguous if `strides` is null."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", DLDataType),
        ("shape", POINTER(ctypes.c_int64)),
        ("strides", POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class DLManagedTensor(ctypes.Structure):
    """A tensor and its deleter. cuVS never calls the deleter of a tensor passed to it."""

    _fields_ = (
        ("dl_tensor", DLTensor),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    )


class Filter(ctypes.Structure):
    """A search filter and its type; passed by value."""

    _fields_ = (("addr", ctypes.c_size_t), ("type", ctypes.c_int))


class IndexParams(ctypes.Structure):
    """How lists are trained and stored."""

    _fields_ = (
        ("metric", ctypes.c_int),
        ("metric_arg", ctypes.c_float),
        ("add_data_on_build", ctypes.c_bool),
        ("n_lists", ctypes.c_uint32),
        ("kmeans_n_iters", ctypes.c_uint32),
        ("kmeans_trainset_fraction", ctypes.c_double),
        ("adaptive_centers", ctypes.c_bool),
        ("conservative_memory_allocation", ctypes.c_bool),
    )


class SearchParams(ctypes.Structure):
    """How many lists a search probes."""

    _fields_ = (("n_probes", ctypes.c_uint32),)


class Index(ctypes.Structure):
    """An index of any element type; `addr` is 0 until it is built."""

    _fields_ = (("addr", ctypes.c_size_t), ("dtype", DLDataType))


_resources = ctypes.c_size_t
_tensor = POINTER(DLManagedTensor)
_index = POINTER(Index)

SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuvsResourcesCreate": (POINTER(_resources),),
    "cuvsResourcesDestroy": (_resources,),
    "cuvsStreamSet": (_resources, ctypes.c_void_p),
    "cuvsStreamGet": (_resources, POINTER(ctypes.c_void_p)),
    "cuvsStreamSync": (_resources,),
    "cuvsRMMPoolMemoryResourceEnable": (ctypes.c_int, ctypes.c_int, ctypes.c_bool),
    "cuvsRMMAlloc": (_resources, POINTER(ctypes.c_void_p), ctypes.c_size_t),
    "cuvsRMMFree": (_resources, ctypes.c_void_p, ctypes.c_size_t),
    "cuvsMatrixCopy": (_resources, _tensor, _tensor),
    "cuvsIvfFlatIndexParamsCreate": (POINTER(POINTER(IndexParams)),),
    "cuvsIvfFlatIndexParamsDestroy": (POINTER(IndexParams),),
    "cuvsIvfFlatSearchParamsCreate": (POINTER(POINTER(SearchParams)),),
    "cuvsIvfFlatSearchParamsDestroy": (POINTER(SearchParams),),
    "cuvsIvfFlatIndexCreate": (POINTER(_index),),
    "cuvsIvfFlatIndexDestroy": (_index,),
    "cuvsIvfFlatIndexGetNLists": (_index, POINTER(ctypes.c_int64)),
    "cuvsIvfFlatIndexGetDim": (_index, POINTER(ctypes.c_int64)),
    "cuvsIvfFlatIndexGetCenters": (_index, _tensor),
    "cuvsIvfFlatBuild": (_resources, POINTER(IndexParams), _tensor, _index),
    "cuvsIvfFlatExtend": (_resources, _tensor, _tensor, _index),
    "cuvsIvfFlatSearch": (
        *(_resources, POINTER(SearchParams), _index),
        *(_tensor, _tensor, _tensor, Filter),
    ),
    "cuvsIvfFlatSerialize": (_resources, ctypes.c_char_p, _index),
    "cuvsIvfFlatDeserialize": (_resources, ctypes.c_char_p, _index),
}
"""The functions used and their argument types. Each returns 1 on success."""

Library: TypeAlias = Any
"""`libcuvs_c` as loaded by ctypes: functions by name. In tests, a fake."""


class CuvsError(Exception):
    """A call failed; the message is the library's own, without its stack frames."""

    @property
    def is_memory(self) -> bool:
        return SHORT_OF_MEMORY.search(str(self)) is not None

    @property
    def names_cuda(self) -> bool:
        return bool(self._cuda_errors)

    @property
    def ends_context(self) -> bool:
        """Whether it names an error after which every CUDA call fails."""
        return not self._cuda_errors.isdisjoint(CONTEXT_ENDING)

    @property
    def _cuda_errors(self) -> frozenset[str]:
        return frozenset(re.findall(r"cudaError\w+", str(self)))


class MemoryPool(NamedTuple):
    """The share of the device's free memory that cuVS reserves, in percent: initially, and at most.

    Each time it runs short it reserves half of the remainder, so `most` is soon reached.
    """

    initial: int = 1
    most: int = 50

    @classmethod
    def of(cls, size: int, free: int) -> Self:
        """A pool of at most `size` of `free` bytes, capped at 90 %."""
        return cls(most=max(1, min(90, 100 * size // max(free, 1))))


class Cuvs:
    """The library, with the result of each call checked.

    Args:
        library: Its functions.

    Attributes:
        lost: The error, once the device has failed permanently; for the whole process.

    Raises:
        ListsError: The struct layouts of this version are not known.
    """

    def __init__(self, library: Library) -> None:
        self.lost: str | None = None
        self._library = library
        self._pooling = threading.Lock()
        self._pooled = False
        library.cuvsGetLastErrorText.argtypes = ()
        library.cuvsGetLastErrorText.restype = ctypes.c_char_p
        self.version = _version_of(library)
        for name, arguments in SIGNATURES.items():
            function = getattr(library, name)
            function.argtypes = arguments
            function.restype = ctypes.c_int

    def call(self, name: str, *arguments: object) -> None:
        """Calls a function with the GIL released.

        Raises:
            CuvsError: The call failed.
        """
        if getattr(self._library, name)(*arguments) != SUCCESS:
            # The text is thread-local and valid until this thread's next call.
            text = self._library.cuvsGetLastErrorText() or b"no reason given"
            raise CuvsError(f"{name}: {text.decode(errors='replace').partition(chr(10))[0]}")

    def enable_pool(self, pool: MemoryPool, enter: Callable[[], None]) -> None:
        """Enables a memory pool; without one, each search begins with eight `cudaMalloc` calls.

        The pool is process-wide and only the first call has an effect: memory of one pool cannot
        be returned to another. cuVS stores the pool in a thread-local variable, so all memory in
        it is lost when the enabling thread ends. It is therefore enabled in a thread that lives
        as long as the process.

        Args:
            pool: Its size.
            enter: Makes the pool's device the calling thread's current device.
        """

        def enable() -> None:
            enter()
            self.call("cuvsRMMPoolMemoryResourceEnable", pool.initial, pool.most, False)

        with self._pooling:
            if not self._pooled:
                _run_in_permanent_thread(enable)
                self._pooled = True


def _run_in_permanent_thread(work: Callable[[], None]) -> None:
    """Runs work in a daemon thread that then lives as long as the process."""
    done: Future[None] = Future()

    def run() -> None:
        try:
            work()
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(None)
            threading.Event().wait()

    threading.Thread(target=run, name="cuvs-pool", daemon=True).start()
    done.result()


def _version_of(library: Library) -> Version:
    """Reads the version and requires a known one, before any call that depends on a layout."""
    library.cuvsVersionGet.argtypes = (POINTER(ctypes.c_uint16),) * 3
    library.cuvsVersionGet.restype = ctypes.c_int
    major, minor, patch = (ctypes.c_uint16() for _ in range(3))
    library.cuvsVersionGet(byref(major), byref(minor), byref(patch))
    version = (major.value, minor.value)
    if version not in KNOWN_VERSIONS:
        known = " and ".join(_written(each) for each in KNOWN_VERSIONS)
        raise ListsError(
            f"cuVS {_written(version)} is not supported, only {known} are: see docs/gpu.md"
        )
    return version


def _written(version: Version) -> str:
    return ".".join(map(str, version))


@functools.cache
def load_cuvs() -> Cuvs:
    """Loads the library once per process. torch is imported first; both use its CUDA libraries.

    Raises:
        ListsError: cuVS is not installed, does not load, or its version is not supported.
    """
    try:
        import libcuvs
    except ImportError as error:
        why = "cuVS is not installed: `make install-gpu` installs it, see docs/gpu.md"
        raise ListsError(why) from error
    # Loads the dependencies. It reports no failure; `CDLL` below does.
    libcuvs.load_library()
    path = Path(libcuvs.__file__).with_name("lib64") / "libcuvs_c.so"
    try:
        return Cuvs(ctypes.CDLL(str(path)))
    except OSError as error:
        raise ListsError(f"cuVS cannot be loaded: {error}") from error


_TYPES = {
    torch.float16: (DL_FLOAT, 16),
    torch.float32: (DL_FLOAT, 32),
    torch.int64: (DL_INT, 64),
    torch.uint32: (DL_UNSIGNED, 32),
}


class TensorView:
    """A tensor as a DLPack struct. It keeps the tensor alive; cuVS keeps neither.

    Args:
        tensor: Contiguous, with at most two dimensions.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        if not tensor.is_contiguous():
            raise ValueError("cuVS accepts only contiguous tensors")
        self.tensor = tensor
        self._shape = (ctypes.c_int64 * 2)()
        self.managed = DLManagedTensor()
        its = self.managed.dl_tensor
        its.data = tensor.data_ptr()
        its.device = DLDevice(DL_CUDA if tensor.is_cuda else DL_CPU, tensor.device.index or 0)
        its.dtype = DLDataType(*_TYPES[tensor.dtype], 1)
        its.shape = ctypes.cast(self._shape, POINTER(ctypes.c_int64))
        self.set_shape(tuple(tensor.shape))

    def set_shape(self, shape: tuple[int, ...]) -> None:
        self.managed.dl_tensor.ndim = len(shape)
        self._shape[: len(shape)] = list(shape)

    @property
    def reference(self) -> Any:
        """The pointer that calls take."""
        return byref(self.managed)

    @property
    def address(self) -> int:
        """The address that a `Filter` takes."""
        return ctypes.addressof(self.managed)


class Buffer:
    """Memory reused by consecutive calls, each with its own shape.

    This avoids three allocations per search, and a fixed address keeps the alignment by which
    cuVS chooses a kernel.
    """

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self._view = TensorView(torch.empty(0, dtype=dtype, device=device))

    def shaped(self, *shape: int) -> torch.Tensor:
        """The memory in this shape, enlarged if needed; its contents are undefined."""
        memory = self._view.tensor
        count = torch.Size(shape).numel()
        if count > memory.numel():
            room = 1 << (count - 1).bit_length()
            self._view = TensorView(torch.empty(room, dtype=memory.dtype, device=memory.device))
        self._view.set_shape(shape)
        return self._view.tensor[:count].view(shape)

    @property
    def reference(self) -> Any:
        """The pointer that calls take, in the last shape given."""
        return self._view.reference
