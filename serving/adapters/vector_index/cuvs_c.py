"""The C API of cuVS, as far as inverted lists need it; the only file that loads the library.

Called by ctypes and not through the official bindings. Those hold the interpreter's lock for the
whole of each call, a build of minutes included; the stream that they are given is the address of a
Python integer, and the next call crashes; and each call leaks the DLPack structs that it makes
(docs/gpu.md). ctypes releases the lock around a call, takes any stream, and the structs are ours.

The price is that layouts are written down twice. `tests/cuvs_layouts.json` holds those of the
headers, and a test compares.
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

from serving.adapters.vector_index.errors import ListsError

Version = tuple[int, int]
"""(26, 10) of cuVS 26.10.0: a patch changes no layout."""

KNOWN_VERSIONS: tuple[Version, ...] = ((26, 6), (26, 10))
"""Those whose headers the structs below were compared with."""

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
"""After one of these every call of the process fails, as the CUDA runtime's manual says of each."""

SHORT_OF_MEMORY = re.compile(
    r"cudaErrorMemoryAllocation|out_of_memory|CUBLAS_STATUS_ALLOC_FAILED|std::bad_alloc$"
)
"""What CUDA, RMM, cuBLAS and C++ say when there is no memory left, in what cuVS passes on.

RMM begins with `std::bad_alloc` whatever an allocation fails of, a lost device included; alone it
is the host's.
"""


class DLDevice(ctypes.Structure):
    """Where a tensor is."""

    _fields_ = (("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32))


class DLDataType(ctypes.Structure):
    """What a tensor is of."""

    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class DLTensor(ctypes.Structure):
    """A tensor; without strides it is contiguous."""

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
    """A tensor and who frees it. cuVS never calls the deleter of one that it is given."""

    _fields_ = (
        ("dl_tensor", DLTensor),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    )


class Filter(ctypes.Structure):
    """Passed by value: what may be found, and how that is written."""

    _fields_ = (("addr", ctypes.c_size_t), ("type", ctypes.c_int))


class IndexParams(ctypes.Structure):
    """How lists are trained and kept."""

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
    """How many lists a search reads."""

    _fields_ = (("n_probes", ctypes.c_uint32),)


class Index(ctypes.Structure):
    """An index of whichever type; `addr` is 0 until it is built."""

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
"""What is called, and with what. Each answers 1 if it went well."""

Library: TypeAlias = Any
"""`libcuvs_c` as ctypes loads it: functions by name. In tests, a fake of it."""


class CuvsError(Exception):
    """A call failed; the message is the library's own, without the frames of its stack."""

    @property
    def is_memory(self) -> bool:
        """Whether memory was short."""
        return SHORT_OF_MEMORY.search(str(self)) is not None

    @property
    def names_cuda(self) -> bool:
        """Whether it says which of CUDA's errors it was."""
        return bool(self._cuda_errors)

    @property
    def ends_context(self) -> bool:
        """Whether it was one after which nothing works."""
        return not self._cuda_errors.isdisjoint(CONTEXT_ENDING)

    @property
    def _cuda_errors(self) -> frozenset[str]:
        return frozenset(re.findall(r"cudaError\w+", str(self)))


class MemoryPool(NamedTuple):
    """What cuVS takes of the device's free memory, in percent: at once, and at most.

    It takes half of what it may still take each time that it is short, so `most` is soon taken.
    """

    initial: int = 1
    most: int = 50

    @classmethod
    def of(cls, size: int, free: int) -> Self:
        """The pool of at most so many bytes, where so many are free; all but a tenth at most."""
        return cls(most=max(1, min(90, 100 * size // max(free, 1))))


class Cuvs:
    """The library, with each call checked.

    Args:
        library: Its functions.

    Attributes:
        lost: What was wrong, once the device failed in a way that stays: for the whole process.

    Raises:
        ListsError: It is of a version whose layouts are not known.
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
        """Calls a function, with the interpreter's lock released.

        Raises:
            CuvsError: It failed.
        """
        if getattr(self._library, name)(*arguments) != SUCCESS:
            # The text is this thread's, until its next call.
            text = self._library.cuvsGetLastErrorText() or b"no reason given"
            raise CuvsError(f"{name}: {text.decode(errors='replace').partition(chr(10))[0]}")

    def enable_pool(self, pool: MemoryPool, enter: Callable[[], None]) -> None:
        """Has memory taken from a pool; without, each search begins with eight `cudaMalloc`.

        For the whole process, so only the first call does anything: what is in one pool cannot
        be given back to another. cuVS keeps the pool in a variable of the thread that enables it,
        and the end of that thread would be the end of all that lies in the pool; so it is enabled
        in a thread of its own, which never ends.

        Args:
            pool: How much.
            enter: Makes the pool's device the calling thread's current one.
        """

        def enable() -> None:
            enter()
            self.call("cuvsRMMPoolMemoryResourceEnable", pool.initial, pool.most, False)

        with self._pooling:
            if not self._pooled:
                _in_thread_that_stays(enable)
                self._pooled = True


def _in_thread_that_stays(work: Callable[[], None]) -> None:
    """Does work in a thread that goes with the process, which does not wait for it."""
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
    """The version, which must be a known one; before anything else, since layouts hang on it."""
    library.cuvsVersionGet.argtypes = (POINTER(ctypes.c_uint16),) * 3
    library.cuvsVersionGet.restype = ctypes.c_int
    major, minor, patch = (ctypes.c_uint16() for _ in range(3))
    library.cuvsVersionGet(byref(major), byref(minor), byref(patch))
    version = (major.value, minor.value)
    if version not in KNOWN_VERSIONS:
        known = " and ".join(_written(each) for each in KNOWN_VERSIONS)
        raise ListsError(
            f"cuVS {_written(version)} is not known here, {known} are: see docs/gpu.md"
        )
    return version


def _written(version: Version) -> str:
    return ".".join(map(str, version))


@functools.cache
def load_cuvs() -> Cuvs:
    """Loads the library, once in a process. torch was imported before: its CUDA serves both.

    Raises:
        ListsError: It is not installed, does not load, or is of a version that is not known.
    """
    try:
        import libcuvs
    except ImportError as error:
        why = "cuVS is not installed: `make install-gpu` installs it, see docs/gpu.md"
        raise ListsError(why) from error
    # Loads what it depends on; of what it cannot load it says nothing, which `CDLL` then does.
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


class View:
    """A tensor as DLPack tells of it. Keeps it alive; the library keeps neither.

    Args:
        tensor: Contiguous, of at most two dimensions.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        if not tensor.is_contiguous():
            raise ValueError("only a contiguous tensor can be handed to cuVS")
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
        """Tells of the same memory in another shape."""
        self.managed.dl_tensor.ndim = len(shape)
        self._shape[: len(shape)] = list(shape)

    @property
    def reference(self) -> Any:
        """What calls take."""
        return byref(self.managed)

    @property
    def address(self) -> int:
        """What a filter takes."""
        return ctypes.addressof(self.managed)


class Buffer:
    """Memory that one call after another uses, each in a shape of its own.

    A search at full load would else make three views a time; and memory at one place keeps
    the alignment by which a kernel is chosen.
    """

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self._view = View(torch.empty(0, dtype=dtype, device=device))

    def shaped(self, *shape: int) -> torch.Tensor:
        """The memory in this shape, grown to it if need be; what was in it is anything."""
        memory = self._view.tensor
        count = torch.Size(shape).numel()
        if count > memory.numel():
            room = 1 << (count - 1).bit_length()
            self._view = View(torch.empty(room, dtype=memory.dtype, device=memory.device))
        self._view.set_shape(shape)
        return self._view.tensor[:count].view(shape)

    @property
    def reference(self) -> Any:
        """What calls take, in the shape given last."""
        return self._view.reference
