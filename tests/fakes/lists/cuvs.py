"""A fake `libcuvs_c`: ctypes callbacks that search lists in host memory.

It checks every call strictly. Arguments are read by the offsets of `cuvs_layouts.json`, not by the
adapter's structs. It checks the type, device, shape and strides of every tensor, and the stream and
thread of every handle. Nothing may be used after it was destroyed. An index may be changed only on
the thread that allocated its memory, and not during a search. The pool must outlive its contents.
A violation fails the call, where cuVS would not notice, and is recorded in `faults`.

Its results are as awkward as those of cuVS: places for which nothing was found hold the largest id,
a real one or none, at plus or minus the largest float, or whatever was there before.
"""

from __future__ import annotations

import ctypes
import itertools
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from tests.support.cuvs_layouts import read_table

TABLE = read_table()

STREAM = 0xC0DE
"""The handle of the stream that all work must be on."""

LARGEST = float(np.finfo(np.float32).max)
NO_ROW = int(np.iinfo(np.int64).max)

OUT_OF_MEMORY = (
    "std::bad_alloc: out_of_memory: CUDA error (failed to allocate 4096 bytes) at: "
    "cuda_memory_resource.hpp:62: cudaErrorMemoryAllocation out of memory"
)
ILLEGAL_ADDRESS = (
    "CUDA error encountered at: file=c_api.cpp line=155 function=f: call='cudaStreamQuery', "
    "Reason=cudaErrorIllegalAddress:an illegal memory access was encountered"
    "\nObtained 18 stack frames\n#1 in libcuvs_c.so"
)
REFUSED = "RAFT failure at file=ivf_flat.cpp line=1 function=f: Unsupported filter type"

UNSIGNED: dict[int, Any] = {
    1: ctypes.c_uint8,
    2: ctypes.c_uint16,
    4: ctypes.c_uint32,
    8: ctypes.c_uint64,
}
"""By size in bytes."""

ROUNDS = 4
"""Iterations of k-means."""


class FaultError(Exception):
    """The library was called incorrectly."""


class HostStream:
    """A `Stream` of the host."""

    handle = STREAM

    def enter(self) -> None:
        pass

    def current(self) -> object:
        return None

    def wait_for(self, position: object) -> None:
        pass

    def share(self, tensors: Iterable[torch.Tensor], position: object) -> None:
        pass


class RecordedSearch(NamedTuple):
    """The arguments of a search."""

    k: int
    n_probes: int
    is_filtered: bool


class _Struct:
    """A struct in memory, read and written by the offsets of the table."""

    def __init__(self, layouts: dict[str, Any], name: str, address: int) -> None:
        self._fields = layouts["structs"][name]["fields"]
        self._layouts = layouts
        self._address = address

    def _at(self, field_: str, type_: Any = None) -> Any:
        offset, size = self._fields[field_]
        return (type_ or UNSIGNED[size]).from_address(self._address + offset)

    def read(self, field_: str, type_: Any = None) -> Any:
        return self._at(field_, type_).value

    def write(self, field_: str, value: Any, type_: Any = None) -> None:
        self._at(field_, type_).value = value

    def within(self, field_: str, name: str) -> _Struct:
        return _Struct(self._layouts, name, self._address + self._fields[field_][0])


@dataclass
class _Resources:
    thread: int
    stream: int | None = None


@dataclass
class _Lists:
    """An index: centroids float32 (n_lists, d), rows float16 (n, d), ids and lists int64 (n,)."""

    memory: Any
    thread: int
    centroids: NDArray[np.float32] | None = None
    rows: NDArray[np.float16] = field(default_factory=lambda: np.zeros((0, 0), np.float16))
    ids: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    labels: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    readers: int = 0
    is_changing: bool = False

    @contextmanager
    def reading(self) -> Iterator[None]:
        if self.is_changing:
            raise FaultError("an index that somebody changes")
        self.readers += 1
        try:
            yield
        finally:
            self.readers -= 1

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Rejects a change on another stream's thread, or during a search."""
        if self.readers or self.is_changing:
            raise FaultError("an index that somebody uses")
        if self.thread != threading.get_ident():
            raise FaultError("an index of another thread's stream")
        self.is_changing = True
        try:
            yield
        finally:
            self.is_changing = False

    def built(self) -> NDArray[np.float32]:
        if self.centroids is None:
            raise FaultError("an index that was not built")
        return self.centroids


class FakeCuvs:
    """The functions of `libcuvs_c`, by name.

    Args:
        version: The version that it reports.

    Attributes:
        faults: The violations found.
        calls: The names of the functions called, in order.
        searches: The arguments of all searches.
        memory: The most bytes of one allocation.
        on_build: Called while an index is built.
        on_search: Called while one is searched.
    """

    def __init__(self, version: tuple[int, int] = (26, 10)) -> None:
        self.faults: list[str] = []
        self.calls: list[str] = []
        self.searches: list[RecordedSearch] = []
        self.memory = 1 << 40
        self.on_build: Callable[[], None] = lambda: None
        self.on_search: Callable[[], None] = lambda: None
        self._version = version
        self._layouts = TABLE.get(f"{version[0]}.{version[1]}", TABLE["26.10"])
        self._failures: dict[str, str] = {}
        self._ended = ""
        self._numbers = itertools.count(0x1000)
        self._living: dict[str, dict[int, Any]] = {}
        self._last_error = threading.local()
        self._pool_thread: threading.Thread | None = None
        self._deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._forget_view)
        self._functions = {
            name: self._function(name, types)
            for name, types in self._layouts["functions"].items()
            if hasattr(self, _method_of(name))
        }

    def __getattr__(self, name: str) -> Any:
        if name == "cuvsGetLastErrorText":
            function = ctypes.CFUNCTYPE(ctypes.c_void_p)(self._last_error_text)
        elif name in self.__dict__.get("_functions", {}):
            return self._functions[name]
        else:
            raise AttributeError(name)
        setattr(self, name, function)
        return function

    def fail(self, name: str, text: str) -> None:
        """Makes the next call of a function fail; a permanent CUDA error, all later calls too."""
        self._failures[name] = text

    @property
    def living(self) -> list[str]:
        """What was created and not destroyed."""
        return sorted(kind for kind, things in self._living.items() for _ in things)

    def _function(self, name: str, types: list[str]) -> Any:
        prototype = ctypes.CFUNCTYPE(ctypes.c_int, *map(self._type, types))
        method: Callable[..., None] = getattr(self, _method_of(name))
        return prototype(lambda *arguments: self._answered(name, method, arguments))

    def _type(self, written: str) -> Any:
        if written == "cuvsFilter":
            return _filter_type(self._layouts)
        plain: dict[str, Any] = {
            "int": ctypes.c_int,
            "_Bool": ctypes.c_bool,
            "size_t": ctypes.c_size_t,
            "cuvsResources_t": ctypes.c_size_t,
            "const char*": ctypes.c_char_p,
        }
        return plain.get(written, ctypes.c_void_p)

    def _answered(self, name: str, method: Callable[..., None], arguments: Any) -> int:
        self.calls.append(name)
        try:
            if text := self._failures.pop(name, self._ended):
                if "cudaErrorIllegalAddress" in text:
                    self._ended = text
                raise _RefusedError(text)
            method(*arguments)
        except FaultError as fault:
            self.faults.append(f"{name}: {fault}")
            self._last_error.text = ctypes.create_string_buffer(str(fault).encode())
            return 0
        except _RefusedError as refusal:
            self._last_error.text = ctypes.create_string_buffer(str(refusal).encode())
            return 0
        except Exception as error:
            # An exception may not leave a callback: ctypes would print it and go on.
            self.faults.append(f"{name}: {error!r}")
            return 0
        return 1

    def _last_error_text(self) -> int:
        """The error of the calling thread only."""
        text = getattr(self._last_error, "text", None)
        return ctypes.addressof(text) if text is not None else 0

    # ---- what lives

    def _made(self, kind: str, number: int, thing: Any) -> None:
        self._living.setdefault(kind, {})[number] = thing

    def _thing(self, kind: str, number: int | None) -> Any:
        try:
            return self._living[kind][number or 0]
        except KeyError:
            raise FaultError(f"{kind} {number} was never made, or is destroyed") from None

    def _destroyed(self, kind: str, number: int | None) -> None:
        self._thing(kind, number)
        del self._living[kind][number or 0]

    def _on_stream(self, resources: int) -> None:
        """Rejects resources of another thread, or of another stream than torch's."""
        its: _Resources = self._thing("resources", resources)
        if its.thread != threading.get_ident():
            raise FaultError("resources of another thread")
        if its.stream != STREAM:
            raise FaultError(f"on stream {its.stream} and not on torch's")
        if self._pool_thread is not None and not self._pool_thread.is_alive():
            raise FaultError("the thread that had the pool has ended, and the pool with it")

    # ---- functions: resources and memory

    def _version_get(self, major: int, minor: int, patch: int) -> None:
        for address, number in zip((major, minor, patch), (*self._version, 0), strict=True):
            ctypes.c_uint16.from_address(address).value = number

    def _resources_create(self, made: int) -> None:
        number = next(self._numbers)
        self._made("resources", number, _Resources(threading.get_ident()))
        ctypes.c_size_t.from_address(made).value = number

    def _resources_destroy(self, resources: int) -> None:
        self._on_stream(resources)
        self._destroyed("resources", resources)

    def _stream_set(self, resources: int, stream: int | None) -> None:
        self._thing("resources", resources).stream = stream

    def _stream_get(self, resources: int, stream: int) -> None:
        ctypes.c_void_p.from_address(stream).value = self._thing("resources", resources).stream

    def _stream_sync(self, resources: int) -> None:
        self._on_stream(resources)

    def _rmm_pool_memory_resource_enable(self, initial: int, most: int, managed: bool) -> None:
        if "pool" in self._living:
            raise FaultError("a second pool")
        if self._living:
            raise FaultError("a pool after what has taken memory without it")
        if managed or not 0 < initial <= most <= 100:
            raise FaultError(f"a pool of {initial} to {most} %, managed: {managed}")
        self._living["pool"] = {}
        self._pool_thread = threading.current_thread()

    def _rmm_alloc(self, resources: int, made: int, size: int) -> None:
        self._on_stream(resources)
        if size > self.memory:
            raise _RefusedError(OUT_OF_MEMORY)
        number = next(self._numbers)
        self._made("memory", number, size)
        ctypes.c_void_p.from_address(made).value = number

    def _rmm_free(self, resources: int, memory: int, size: int) -> None:
        self._on_stream(resources)
        if self._thing("memory", memory) != size:
            raise FaultError("freed another size than was taken")
        self._destroyed("memory", memory)

    def _matrix_copy(self, resources: int, source: int, target: int) -> None:
        self._on_stream(resources)
        copied = self._tensor(target, np.float32, 2)
        copied[:] = self._tensor(source, np.float32, 2)

    # ---- functions: parameters

    def _new_struct(self, kind: str, name: str, made: int) -> _Struct:
        memory = ctypes.create_string_buffer(self._layouts["structs"][name]["size"])
        address = ctypes.addressof(memory)
        self._made(kind, address, memory)
        ctypes.c_void_p.from_address(made).value = address
        return _Struct(self._layouts, name, address)

    def _ivf_flat_index_params_create(self, made: int) -> None:
        its = self._new_struct("index parameters", "cuvsIvfFlatIndexParams", made)
        its.write("metric_arg", 2.0, ctypes.c_float)
        its.write("add_data_on_build", 1)
        its.write("n_lists", 1024)
        its.write("kmeans_n_iters", 20)
        its.write("kmeans_trainset_fraction", 0.5, ctypes.c_double)

    def _ivf_flat_index_params_destroy(self, parameters: int) -> None:
        self._destroyed("index parameters", parameters)

    def _ivf_flat_search_params_create(self, made: int) -> None:
        its = self._new_struct("search parameters", "cuvsIvfFlatSearchParams", made)
        its.write("n_probes", 20)

    def _ivf_flat_search_params_destroy(self, parameters: int) -> None:
        self._destroyed("search parameters", parameters)

    # ---- functions: an index

    def _ivf_flat_index_create(self, made: int) -> None:
        memory = ctypes.create_string_buffer(self._layouts["structs"]["cuvsIvfFlatIndex"]["size"])
        self._made("index", ctypes.addressof(memory), _Lists(memory, threading.get_ident()))
        ctypes.c_void_p.from_address(made).value = ctypes.addressof(memory)

    def _ivf_flat_index_destroy(self, index: int) -> None:
        with self._thing("index", index).changing():
            self._destroyed("index", index)

    def _ivf_flat_index_get_n_lists(self, index: int, n_lists: int) -> None:
        its: _Lists = self._thing("index", index)
        ctypes.c_int64.from_address(n_lists).value = its.built().shape[0]

    def _ivf_flat_index_get_dim(self, index: int, dimension: int) -> None:
        its: _Lists = self._thing("index", index)
        ctypes.c_int64.from_address(dimension).value = its.built().shape[1]

    def _ivf_flat_index_get_centers(self, index: int, view: int) -> None:
        """A view, contrary to the header, and a shape that the view's deleter frees."""
        centroids = self._thing("index", index).built()
        shape = (ctypes.c_int64 * 2)(*centroids.shape)
        self._made("view", view, (shape, centroids))
        managed = _Struct(self._layouts, "DLManagedTensor", view)
        its = managed.within("dl_tensor", "DLTensor")
        its.write("data", centroids.ctypes.data)
        its.within("device", "DLDevice").write("device_type", self._enumerator("kDLCPU"))
        its.within("dtype", "DLDataType").write("code", self._enumerator("kDLFloat"))
        its.within("dtype", "DLDataType").write("bits", 32)
        its.within("dtype", "DLDataType").write("lanes", 1)
        its.write("ndim", 2)
        its.write("shape", ctypes.addressof(shape))
        deleter = ctypes.cast(self._deleter, ctypes.c_void_p).value
        managed.write("deleter", deleter)

    def _forget_view(self, view: int) -> None:
        try:
            self._destroyed("view", view)
        except FaultError as fault:
            self.faults.append(str(fault))

    def _ivf_flat_build(self, resources: int, parameters: int, rows: int, index: int) -> None:
        self._on_stream(resources)
        self._thing("index parameters", parameters)
        its = _Struct(self._layouts, "cuvsIvfFlatIndexParams", parameters)
        settings = {
            "metric": (its.read("metric"), self._enumerator("InnerProduct")),
            "add_data_on_build": (its.read("add_data_on_build"), 0),
            "kmeans_trainset_fraction": (
                its.read("kmeans_trainset_fraction", ctypes.c_double),
                1.0,
            ),
            "adaptive_centers": (its.read("adaptive_centers"), 0),
            "conservative_memory_allocation": (its.read("conservative_memory_allocation"), 1),
        }
        for name, (value, wanted) in settings.items():
            if value != wanted:
                raise FaultError(f"{name} is {value} and not {wanted}")
        sample = self._tensor(rows, np.float16, 2)
        n_lists = its.read("n_lists")
        if not 0 < n_lists <= len(sample) or not its.read("kmeans_n_iters"):
            raise FaultError(f"{n_lists} lists of {len(sample)} rows")
        lists: _Lists = self._thing("index", index)
        with lists.changing():
            self.on_build()
            lists.centroids = _centroids(sample.astype(np.float32), n_lists)
            lists.rows = np.zeros((0, sample.shape[1]), np.float16)

    def _ivf_flat_extend(self, resources: int, rows: int, ids: int, index: int) -> None:
        self._on_stream(resources)
        its: _Lists = self._thing("index", index)
        added, numbers = self._tensor(rows, np.float16, 2), self._tensor(ids, np.int64, 1)
        if len(added) != len(numbers):
            raise FaultError("as many ids as rows are needed")
        with its.changing():
            nearest = (added.astype(np.float32) @ its.built().T).argmax(axis=1)
            its.rows = np.concatenate([its.rows, added])
            its.ids = np.concatenate([its.ids, numbers])
            its.labels = np.concatenate([its.labels, nearest])

    def _ivf_flat_search(
        self,
        resources: int,
        parameters: int,
        index: int,
        queries: int,
        neighbours: int,
        distances: int,
        filter_: Any,
    ) -> None:
        self._on_stream(resources)
        self._thing("search parameters", parameters)
        its: _Lists = self._thing("index", index)
        n_probes = _Struct(self._layouts, "cuvsIvfFlatSearchParams", parameters).read("n_probes")
        asked = self._tensor(queries, np.float16, 2).astype(np.float32)
        ids, scores = self._tensor(neighbours, np.int64, 2), self._tensor(distances, np.float32, 2)
        if ids.shape != scores.shape or len(ids) != len(asked) or n_probes < 1:
            raise FaultError(f"{asked.shape} for {ids.shape} and {scores.shape}, {n_probes} probes")
        self.searches.append(RecordedSearch(ids.shape[1], n_probes, filter_.type != 0))
        with its.reading():
            self.on_search()
            passing = self._passing(its, filter_)
            for query, found_ids, found_scores in zip(asked, ids, scores, strict=True):
                self._answer(its, query, n_probes, passing, found_ids, found_scores)

    def _passing(self, its: _Lists, filter_: Any) -> NDArray[np.bool_]:
        """bool (n,): the rows that pass the filter, whose size is not checked."""
        if filter_.type == self._enumerator("NO_FILTER"):
            return np.ones(len(its.ids), np.bool_)
        if filter_.type != self._enumerator("BITSET"):
            raise _RefusedError(REFUSED)
        words = self._tensor(filter_.addr, np.uint32, 1)
        if len(its.ids) and its.ids.max() >= 32 * len(words):
            raise FaultError(f"a bitset of {32 * len(words)} bits for the id {its.ids.max()}")
        passing: NDArray[np.bool_] = (words[its.ids // 32] >> (its.ids % 32) & 1).astype(np.bool_)
        return passing

    def _answer(
        self,
        its: _Lists,
        query: NDArray[np.float32],
        n_probes: int,
        passing: NDArray[np.bool_],
        ids: NDArray[np.int64],
        scores: NDArray[np.float32],
    ) -> None:
        probed = np.argsort(-(its.built() @ query), kind="stable")[:n_probes]
        rows = np.flatnonzero(passing & np.isin(its.labels, probed))
        products = its.rows[rows].astype(np.float32) @ query
        best = np.argsort(-products, kind="stable")[: len(ids)]
        ids[: len(best)], scores[: len(best)] = its.ids[rows[best]], products[best]
        paddings = itertools.cycle(
            [(NO_ROW, -LARGEST), (0, -LARGEST), (int(its.ids[0]), LARGEST), None]
        )
        for place, padding in zip(range(len(best), len(ids)), paddings, strict=False):
            if padding is not None:
                ids[place], scores[place] = padding

    def _ivf_flat_serialize(self, resources: int, path: bytes, index: int) -> None:
        self._on_stream(resources)
        its: _Lists = self._thing("index", index)
        with its.reading(), Path(path.decode()).open("wb") as file:
            for array in (its.built(), its.rows, its.ids, its.labels):
                np.save(file, array)

    def _ivf_flat_deserialize(self, resources: int, path: bytes, index: int) -> None:
        self._on_stream(resources)
        its: _Lists = self._thing("index", index)
        with its.changing(), Path(path.decode()).open("rb") as file:
            try:
                its.centroids, its.rows, its.ids, its.labels = (np.load(file) for _ in range(4))
            except (ValueError, EOFError):
                raise FaultError("a file cut short, from which cuVS would never return") from None

    # ---- tensors

    def _enumerator(self, name: str) -> int:
        return int(self._layouts["enumerators"][name])

    def _tensor(self, address: int, type_: type[Any], dimensions: int) -> NDArray[Any]:
        """The tensor at an address, which must be of this type, contiguous, and on the device."""
        if not address:
            raise FaultError("no tensor")
        its = _Struct(self._layouts, "DLManagedTensor", address).within("dl_tensor", "DLTensor")
        device, dtype = its.within("device", "DLDevice"), its.within("dtype", "DLDataType")
        codes = {"f": "kDLFloat", "i": "kDLInt", "u": "kDLUInt"}
        wanted = np.dtype(type_)
        properties = {
            "device_type": (device.read("device_type"), self._enumerator("kDLCPU")),
            "device_id": (device.read("device_id"), 0),
            "code": (dtype.read("code"), self._enumerator(codes[wanted.kind])),
            "bits": (dtype.read("bits"), 8 * wanted.itemsize),
            "lanes": (dtype.read("lanes"), 1),
            "ndim": (its.read("ndim"), dimensions),
            "strides": (its.read("strides"), 0),
            "byte_offset": (its.read("byte_offset"), 0),
        }
        for name, (value, expected) in properties.items():
            if value != expected:
                raise FaultError(f"{name} of a tensor is {value} and not {expected}")
        shape = tuple((ctypes.c_int64 * dimensions).from_address(its.read("shape")))
        count = int(np.prod(shape))
        if not count:
            return np.zeros(shape, wanted)
        memory = (ctypes.c_uint8 * (count * wanted.itemsize)).from_address(its.read("data"))
        tensor: NDArray[Any] = np.frombuffer(memoryview(memory), wanted).reshape(shape)
        return tensor


class _RefusedError(Exception):
    """An error of the library itself, not caused by the caller."""


def _method_of(function: str) -> str:
    """`_rmm_alloc` of `cuvsRMMAlloc`."""
    words = re.sub("(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", function).lower()
    return words.removeprefix("cuvs")


def _filter_type(layouts: dict[str, Any]) -> Any:
    """A struct that ctypes passes by value, with fields at the offsets of the table."""
    fields = layouts["structs"]["cuvsFilter"]["fields"]
    types = {4: ctypes.c_int32, 8: ctypes.c_size_t}
    listed = [(name, types[size]) for name, (_, size) in fields.items()]
    made = type("CuvsFilter", (ctypes.Structure,), {"_fields_": listed})
    for name, (offset, _) in fields.items():
        assert getattr(made, name).offset == offset
    return made


def _centroids(sample: NDArray[np.float32], n_lists: int) -> NDArray[np.float32]:
    """The centroids of roughly balanced lists: a few rounds of k-means on the sphere."""
    centroids = sample[np.linspace(0, len(sample) - 1, n_lists).astype(int)]
    for _ in range(ROUNDS):
        labels = (sample @ centroids.T).argmax(axis=1)
        sums = np.stack([sample[labels == label].sum(axis=0) for label in range(n_lists)])
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        centroids = np.where(lengths > 0, sums / np.maximum(lengths, 1e-9), centroids)
    return np.ascontiguousarray(centroids, np.float32)
