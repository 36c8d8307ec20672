"""Inverted lists on a GPU, by cuVS IVF-Flat.

Vectors are stored as float16, and cuVS also accumulates their products in float16: scores are off
by 2e-3 at 1024 dimensions, so callers score the candidates again.

cuVS leaves three checks to its caller. It does not compare a bitset's size with the slots that it
looks up, so the bitset must cover the highest slot. Result places for which nothing was found
hold arbitrary slots at a distance of +-3.4e38, so they are marked as not found here. An index must
not be used during an extension, so searches and extensions exclude each other.

Lists are trained on one worker (`cuvs_worker`) and searched on another, so that no search waits
for a training: cuVS does not bind an index to the handle that built it. All memory of lists is
allocated and freed on the worker that built them. It belongs to that worker's stream, and may be
reused there while another stream still copies out of it.
"""

from __future__ import annotations

import ctypes
import os
import queue
import struct
import weakref
from collections.abc import Callable
from contextlib import suppress
from ctypes import POINTER, byref
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from serving.adapters.vector_index.lists.cuvs_c import (
    BITSET,
    INNER_PRODUCT,
    NO_FILTER,
    Buffer,
    Cuvs,
    CuvsError,
    DLManagedTensor,
    Filter,
    Index,
    IndexParams,
    MemoryPool,
    SearchParams,
    TensorView,
    Version,
    load_cuvs,
)
from serving.adapters.vector_index.lists.cuvs_worker import CuvsWorker, Streams
from serving.adapters.vector_index.lists.errors import ListsError
from serving.adapters.vector_index.lists.inverted_lists import ListFilter, ListHits
from serving.adapters.vector_index.lists.shared_lock import SharedLock

T = TypeVar("T")

MOST_FOUND = 256
"""Above this k cuVS writes out all distances that it computes."""

IMPOSSIBLE_SCORE = 1e30
"""Far beyond any score of unit vectors; cuVS fills missing results with -3.4e38."""

BITS_AT_ONCE = 1 << 16
"""Bitset sizes are rounded up to a multiple, to avoid a rebuild after each `extend`."""

ROWS_AT_ONCE = 1 << 16
"""Rows compared with the centroids at once, as cuVS does itself."""

GROUP = 32
"""Lists grow by at least this many rows."""

WARMED_LISTS, WARMED_ROWS = 2, 64

TRAINING_ROUNDS = 20
"""Iterations of k-means; the default of cuVS."""

WORD = 32


class _Bitset:
    """A mask in cuVS' format: bit `slot % 32` of word `slot // 32` lets a slot pass."""

    def __init__(self, mask: NDArray[np.bool_], device: torch.device) -> None:
        self._packed = np.packbits(mask, bitorder="little")
        self._device = device
        self._view: TensorView | None = None

    def covering(self, slots: int) -> TensorView:
        """The bitset with at least `slots` bits; those beyond the mask are 0."""
        if self._view is None or self._view.tensor.numel() * WORD < slots:
            bits = max(slots, len(self._packed) * 8)
            rounded = -(-bits // BITS_AT_ONCE) * BITS_AT_ONCE
            words = np.zeros(rounded // WORD, np.uint32)
            words.view(np.uint8)[: len(self._packed)] = self._packed
            self._view = TensorView(torch.from_numpy(words).to(self._device))
        return self._view


class _Footer(NamedTuple):
    """Metadata appended to a cuVS file, since loaded lists cannot be queried for it.

    It also detects truncated files: cuVS 26.10 never returns from reading one.
    """

    version: Version
    length: int
    dimension: int
    end: int
    sizes: NDArray[np.int64]

    def append_to(self, path: Path) -> None:
        numbers = (*self.version, self.length, self.dimension, self.end, len(self.sizes))
        with path.open("ab") as file:
            file.write(self.sizes.astype("<i8").tobytes())
            file.write(FOOTER.pack(MAGIC, *numbers))

    @classmethod
    def of(cls, path: Path) -> _Footer:
        """Reads the footer of a file.

        Raises:
            ListsError: There is none, or the file's length does not match it.
        """
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - FOOTER.size))
            tail = file.read()
            if len(tail) < FOOTER.size or not tail.startswith(MAGIC):
                raise ListsError(f"{path.name} was cut short, or holds no lists of cuVS")
            _, major, minor, length, dimension, end, n_lists = FOOTER.unpack(tail)
            if length + 8 * n_lists + FOOTER.size != size:
                raise ListsError(f"{path.name} is not as long as it was written")
            file.seek(length)
            sizes = np.frombuffer(file.read(8 * n_lists), "<i8").astype(np.int64)
        return cls((major, minor), length, dimension, end, sizes)


MAGIC = b"TRIVCUVS"
FOOTER = struct.Struct("<8sHHqqqq")
"""MAGIC, cuVS version (major, minor), length of the cuVS data, dimension, end, number of sizes."""


class _Workspace:
    """What all lists of a library share: workers, search parameters and buffers.

    Attributes:
        searching: The worker that searches.
        building: The worker that trains, extends, reads and frees lists.
        forgotten: Indexes of lists that were garbage-collected without being closed.
    """

    def __init__(
        self, cuvs: Cuvs, device: torch.device, streams: Streams, pool: MemoryPool
    ) -> None:
        self.cuvs = cuvs
        self.device = device
        self.forgotten: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.searching = CuvsWorker(cuvs, streams.searching, pool, name="cuvs-search")
        try:
            self.building = CuvsWorker(cuvs, streams.building, pool, name="cuvs-build")
        except BaseException:
            self.searching.close()
            raise
        self.parameters = POINTER(SearchParams)()
        cuvs.call("cuvsIvfFlatSearchParamsCreate", byref(self.parameters))
        self.queries = Buffer(torch.float16, device)
        self.slots = Buffer(torch.int64, device)
        self.distances = Buffer(torch.float32, device)

    def build(self, work: Callable[[], T], what: str) -> T:
        """Runs work on the building worker, after freeing the memory of forgotten lists.

        Raises:
            ListsError: See `CuvsWorker.run`.
        """

        def free_and_work() -> T:
            self._free_forgotten()
            return work()

        return self.building.run(free_and_work, what)

    def _free_forgotten(self) -> None:
        with suppress(queue.Empty):
            while True:
                self.cuvs.call("cuvsIvfFlatIndexDestroy", self.forgotten.get_nowait())

    def make_room(self, size: int) -> None:
        """Allocates and frees `size` bytes, so that the pool has them for what follows.

        Raises:
            CuvsError: They are not available.
        """
        taken = ctypes.c_void_p()
        self.building.call("cuvsRMMAlloc", byref(taken), size)
        self.building.call("cuvsRMMFree", taken, size)

    def close(self) -> None:
        if not self.building.is_lost:
            self.building.run(self._free, "closing")
        self.searching.close()
        self.building.close()

    def _free(self) -> None:
        self._free_forgotten()
        self.cuvs.call("cuvsIvfFlatSearchParamsDestroy", self.parameters)


class _IvfIndex(NamedTuple):
    """A cuVS index with its metadata. `centroids`: float32 (n_lists, dimension).

    `end` is one more than the highest slot.
    """

    index: Any
    centroids: torch.Tensor
    sizes: NDArray[np.int64]
    end: int


class _NewRows(NamedTuple):
    """Rows to add; must be kept alive until the worker has synchronised with the device.

    `counts`: rows per list, int64 (n_lists,). `end` is one more than the last slot.
    """

    rows: TensorView
    ids: TensorView
    counts: NDArray[np.int64]
    end: int


class CuvsLists:
    """`InvertedLists` in an IVF-Flat index of cuVS.

    Lists that are garbage-collected without `close` are freed when the library next trains,
    loads or extends lists.

    Args:
        workspace: Of the library that made the lists.
        index: The index; destroyed by `close`.
    """

    def __init__(self, workspace: _Workspace, index: _IvfIndex) -> None:
        self._workspace = workspace
        self._index: Any = index.index
        self._centroids = index.centroids
        self._sizes = index.sizes
        self._end = index.end
        self._is_torn = False
        self._lock = SharedLock()
        # A finalizer must not wait for a worker, so it only enqueues the index.
        self._forget = weakref.finalize(self, workspace.forgotten.put, index.index)
        self._forget.atexit = False

    @property
    def n_lists(self) -> int:
        return len(self._sizes)

    def list_sizes(self) -> NDArray[np.int64]:
        """Counted here by cuVS' assignment rule, since cuVS reports no sizes: (n_lists,)."""
        return self._sizes

    def extend(self, vectors: torch.Tensor, slots: torch.Tensor) -> None:
        """Adds rows; see `InvertedLists.extend`.

        Raises:
            ValueError: A slot is not new; nothing was added.
            OutOfMemoryError: The rows do not fit. Memory is reserved first, so nothing was added;
                if cuVS fails nevertheless, the lists can only be closed.
        """
        if not len(slots):
            return
        workspace, what = self._workspace, f"{len(slots):,} more rows in lists"
        new = workspace.build(lambda: self._prepared(vectors, slots), what)
        # The longest part is done; from here on no search may read what is moved.
        with self._lock.alone():
            workspace.build(lambda: self._extend(new), what)

    def _prepared(self, vectors: torch.Tensor, slots: torch.Tensor) -> _NewRows:
        self._usable()
        numbers = slots.cpu().numpy()
        if numbers[0] < self._end or not (np.diff(numbers) > 0).all():
            raise ValueError(f"slots must ascend from {self._end}: rows are stored once")
        rows, ids = TensorView(vectors.contiguous()), TensorView(slots.contiguous())
        return _NewRows(rows, ids, self._counts(rows.tensor), int(numbers[-1]) + 1)

    def _extend(self, new: _NewRows) -> None:
        index, worker = self._usable(), self._workspace.building
        self._workspace.make_room(self._needed(new.counts))
        # cuVS moves one list after the other and updates the pointers to them at the end.
        self._is_torn = True
        worker.call("cuvsIvfFlatExtend", new.rows.reference, new.ids.reference, index)
        worker.wait()
        self._is_torn = False
        self._sizes = self._sizes + new.counts
        self._end = new.end

    def _counts(self, rows: torch.Tensor) -> NDArray[np.int64]:
        """How many of the rows go to each list: int64 (n_lists,)."""
        counts = torch.zeros(self.n_lists, dtype=torch.int64, device=rows.device)
        for start in range(0, len(rows), ROWS_AT_ONCE):
            part = rows[start : start + ROWS_AT_ONCE]
            nearest = (part.float() @ self._centroids.T).argmax(dim=1)
            counts += torch.bincount(nearest, minlength=self.n_lists)
        on_host: NDArray[np.int64] = counts.cpu().numpy()
        return on_host

    def _needed(self, added: NDArray[np.int64]) -> int:
        """Bytes for whole groups of new rows in each growing list, and for moving the longest."""
        longest = int((self._sizes + added).max())
        rows = int(added.sum()) + GROUP * int((added > 0).sum()) + longest + GROUP
        return rows * (2 * self._centroids.shape[1] + 8)

    def allow(self, mask: NDArray[np.bool_]) -> ListFilter:
        bitset = _Bitset(mask, self._workspace.device)
        what = f"a bitset of {len(mask):,} slots"
        self._workspace.searching.run(lambda: bitset.covering(self._end), what)
        return bitset

    def search(
        self, queries: torch.Tensor, k: int, n_probes: int, allowed: ListFilter | None
    ) -> ListHits:
        """Finds the nearest rows; see `InvertedLists.search`.

        Raises:
            ValueError: `k` is out of range, or the dimension does not match.
            OutOfMemoryError: Temporary memory does not fit.
        """
        if not 1 <= k <= MOST_FOUND:
            raise ValueError(f"k must be 1 to {MOST_FOUND}, got {k}")
        dimension = self._centroids.shape[1]
        if queries.shape[1] != dimension:
            raise ValueError(f"queries must have {dimension} dimensions, got {queries.shape[1]}")
        assert allowed is None or isinstance(allowed, _Bitset), "of another library; this is a bug"
        what = f"a search of {n_probes:,} lists for {len(queries)} queries"
        worker = self._workspace.searching
        with self._lock.shared():
            return worker.run(lambda: self._search(queries, k, n_probes, allowed), what)

    def _search(
        self, queries: torch.Tensor, k: int, n_probes: int, allowed: _Bitset | None
    ) -> ListHits:
        index, workspace = self._usable(), self._workspace
        shape = (len(queries), k)
        slots, distances = workspace.slots.shaped(*shape), workspace.distances.shaped(*shape)
        # Places that cuVS does not write must not keep the results of an earlier search.
        slots.fill_(-1)
        distances.fill_(-torch.inf)
        if self._end and len(queries):
            workspace.queries.shaped(*queries.shape).copy_(queries)
            workspace.parameters.contents.n_probes = n_probes
            # Covers the highest slot, which may exceed the number of rows that cuVS knows of.
            bitset = (
                Filter(0, NO_FILTER)
                if allowed is None
                else Filter(allowed.covering(self._end).address, BITSET)
            )
            workspace.searching.call(
                "cuvsIvfFlatSearch",
                workspace.parameters,
                index,
                workspace.queries.reference,
                workspace.slots.reference,
                workspace.distances.reference,
                bitset,
            )
        found = (slots >= 0) & (slots < self._end) & (distances.abs() < IMPOSSIBLE_SCORE)
        return ListHits(torch.where(found, distances, -torch.inf), torch.where(found, slots, -1))

    def keep_only(self, alive: NDArray[np.bool_]) -> bool:
        """Returns whether all rows are alive: cuVS cannot remove rows."""
        return int(self.list_sizes().sum()) <= int(np.count_nonzero(alive[: self._end]))

    def save(self, path: Path) -> None:
        self._workspace.build(lambda: self._save(path), "writing lists to a file")

    def _save(self, path: Path) -> None:
        cuvs, building = self._workspace.cuvs, self._workspace.building
        building.call("cuvsIvfFlatSerialize", os.fsencode(path), self._usable())
        length, dimension = path.stat().st_size, self._centroids.shape[1]
        _Footer(cuvs.version, length, dimension, self._end, self._sizes).append_to(path)

    def _usable(self) -> Any:
        if self._index is None:
            raise ListsError("these lists are closed")
        if self._is_torn:
            raise ListsError("an extension failed and left the lists torn: rebuild them")
        return self._index

    def close(self) -> None:
        index, self._index = self._index, None
        cuvs = self._workspace.cuvs
        if self._forget.detach() is not None and not self._workspace.building.is_lost:
            self._workspace.build(
                lambda: cuvs.call("cuvsIvfFlatIndexDestroy", index), "freeing lists"
            )


class CuvsLibrary:
    """A `ListsLibrary` of `CuvsLists`, with the two workers that all of its lists share.

    Args:
        device: The CUDA device of the lists.
        cuvs: The C library; loaded if not given.
        streams: What it works on; new streams of the device if not given.
        pool: How much memory cuVS reserves; only the first in a process has an effect.

    Raises:
        ListsError: cuVS is not installed, its version is not supported, or it does not find the
            device.
    """

    def __init__(
        self,
        device: torch.device,
        *,
        cuvs: Cuvs | None = None,
        streams: Streams | None = None,
        pool: MemoryPool | None = None,
    ) -> None:
        self._cuvs = cuvs or load_cuvs()
        self._workspace = _Workspace(
            self._cuvs, device, streams or Streams.of(device), pool or MemoryPool()
        )
        self._warmed: set[int] = set()

    @property
    def name(self) -> str:
        major, minor = self._cuvs.version
        return f"cuvs {major}.{minor}"

    def train(self, sample: torch.Tensor, n_lists: int) -> CuvsLists:
        """Trains on the whole sample, whose order does not matter; see `ListsLibrary.train`.

        The first call for a dimension also runs `warm_up`.
        """
        count, dimension = sample.shape
        if count < n_lists:
            raise ValueError(f"{n_lists} lists need as many rows to train on, got {count}")
        self.warm_up(dimension)
        return self._train(sample, n_lists)

    def _train(self, sample: torch.Tensor, n_lists: int) -> CuvsLists:
        what = f"training {n_lists:,} lists on {len(sample):,} rows"
        return self._make_lists(lambda index: self._fit(index, sample, n_lists), what)

    def _make_lists(self, fill: Callable[[Any], _IvfIndex], what: str) -> CuvsLists:
        """Makes lists of an empty index that `fill` builds or reads; destroys it on failure."""

        def make() -> CuvsLists:
            index = POINTER(Index)()
            self._cuvs.call("cuvsIvfFlatIndexCreate", byref(index))
            try:
                return CuvsLists(self._workspace, fill(index))
            except BaseException:
                # On a lost device this fails too, and the first error is the one to report.
                with suppress(CuvsError):
                    self._cuvs.call("cuvsIvfFlatIndexDestroy", index)
                raise

        return self._workspace.build(make, what)

    def _fit(self, index: Any, sample: torch.Tensor, n_lists: int) -> _IvfIndex:
        parameters = POINTER(IndexParams)()
        self._cuvs.call("cuvsIvfFlatIndexParamsCreate", byref(parameters))
        try:
            settings = parameters.contents
            settings.metric = INNER_PRODUCT
            # Rows are added with their slots, which only `extend` accepts.
            settings.add_data_on_build = False
            settings.n_lists = n_lists
            settings.kmeans_n_iters = TRAINING_ROUNDS
            settings.kmeans_trainset_fraction = 1.0
            # With adaptive centroids the results would depend on the order of writes.
            settings.adaptive_centers = False
            # Lists in whole groups take 5 to 20 % more memory than their rows, instead of 44 %.
            settings.conservative_memory_allocation = True
            rows = TensorView(sample.contiguous())
            self._workspace.building.call("cuvsIvfFlatBuild", parameters, rows.reference, index)
            # The device reads the sample until here.
            self._workspace.building.wait()
        finally:
            self._cuvs.call("cuvsIvfFlatIndexParamsDestroy", parameters)
        centroids = self._copy_centroids(index, n_lists, sample.shape[1])
        return _IvfIndex(index, centroids, np.zeros(n_lists, np.int64), 0)

    def _copy_centroids(self, index: Any, n_lists: int, dimension: int) -> torch.Tensor:
        """A copy of the centroids: float32 (n_lists, dimension)."""
        copy = torch.empty((n_lists, dimension), device=self._workspace.device)
        # A view of the index's own memory, although the header speaks of a preallocated array.
        view = DLManagedTensor()
        self._cuvs.call("cuvsIvfFlatIndexGetCenters", index, byref(view))
        try:
            self._workspace.building.call("cuvsMatrixCopy", byref(view), TensorView(copy).reference)
        finally:
            view.deleter(ctypes.addressof(view))
        return copy

    def load(self, path: Path) -> CuvsLists:
        try:
            footer = _Footer.of(path)
        except OSError as error:
            raise ListsError(f"{path.name} cannot be read as lists") from error
        if footer.version != self._cuvs.version:
            written = "cuvs {}.{}".format(*footer.version)
            raise ListsError(f"{path.name} was written by {written}, this is {self.name}")
        self.warm_up(footer.dimension)
        what = f"the lists in {path.name}"
        return self._make_lists(lambda index: self._read(index, path, footer), what)

    def _read(self, index: Any, path: Path, footer: _Footer) -> _IvfIndex:
        self._workspace.building.call("cuvsIvfFlatDeserialize", os.fsencode(path), index)
        n_lists, dimension = ctypes.c_int64(), ctypes.c_int64()
        self._cuvs.call("cuvsIvfFlatIndexGetNLists", index, byref(n_lists))
        self._cuvs.call("cuvsIvfFlatIndexGetDim", index, byref(dimension))
        if (n_lists.value, dimension.value) != (len(footer.sizes), footer.dimension):
            raise ListsError(f"the lists in {path.name} do not match its footer")
        centroids = self._copy_centroids(index, n_lists.value, dimension.value)
        return _IvfIndex(index, centroids, footer.sizes, footer.end)

    def warm_up(self, dimension: int) -> None:
        """Runs one search for each kernel variant, so that no user query waits for linking.

        cuVS links its scan kernel on first use: per capacity of the result (a power of two up to
        256), with and without a filter, and by the alignment of the dimension.

        Raises:
            OutOfMemoryError: Not even 64 rows fit.
            ListsError: The library failed.
        """
        if dimension in self._warmed:
            return
        rows = torch.randn((WARMED_ROWS, dimension), generator=torch.Generator().manual_seed(0))
        rows = torch.nn.functional.normalize(rows).to(self._workspace.device)
        lists = self._train(rows.half(), WARMED_LISTS)
        try:
            lists.extend(rows.half(), torch.arange(WARMED_ROWS, device=rows.device))
            for allowed in (None, lists.allow(np.ones(WARMED_ROWS, np.bool_))):
                for power in range(MOST_FOUND.bit_length()):
                    lists.search(rows[:1], 1 << power, WARMED_LISTS, allowed)
        finally:
            lists.close()
        self._warmed.add(dimension)

    def close(self) -> None:
        """Frees what the library itself holds. Its lists must be closed before."""
        self._workspace.close()
