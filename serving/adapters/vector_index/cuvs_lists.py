"""Inverted lists on a GPU, by cuVS IVF-Flat.

Vectors are kept as float16, and cuVS adds up their products in float16 as well: scores are off by
2e-3 at 1024 dimensions, so whoever asks scores the head again.

What cuVS leaves to its caller, and is done here: a bitset is not checked against the slots that
are looked up in it, so it covers the highest; places in an answer that nothing was found for hold
anything at a distance of +-3.4e38, so they are told as not found; no two things may happen to an
index at once, so searches keep an extension waiting, and it them.

Lists are made on one lane (`cuvs_lane`) and searched on another, so that no search waits for a
training: cuVS does not tie an index to the handle that it was made with. All that takes or gives
back memory of lists stays on the lane that made them. That memory belongs to its stream, and may
be given to whatever comes next there, while a copy out of it is still under way on another.
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
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from serving.adapters.vector_index.cuvs_c import (
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
    Version,
    View,
    load_cuvs,
)
from serving.adapters.vector_index.cuvs_lane import Lane, Streams
from serving.adapters.vector_index.errors import ListsError
from serving.adapters.vector_index.inverted_lists import AllowedRows, Nearest
from serving.adapters.vector_index.shared_lock import SharedLock

T = TypeVar("T")

MOST_FOUND = 256
"""Above this k cuVS writes out the distances of all that it reads."""

IMPOSSIBLE_SCORE = 1e30
"""Unit vectors have none near it; cuVS fills up what it did not find with -3.4e38."""

BITS_AT_ONCE = 1 << 16
"""A bitset is rounded up to a multiple, or it would be made anew after each `extend`."""

ROWS_AT_ONCE = 1 << 16
"""So many rows are compared with the centres at once, as cuVS does itself."""

GROUP = 32
"""Lists grow by as many rows, at the least."""

WARMED_LISTS, WARMED_ROWS = 2, 64

TRAINING_ROUNDS = 20
"""Of k-means; cuVS' own default."""

WORD = 32


class _Bitset:
    """A mask as cuVS reads it: bit `slot % 32` of word `slot // 32` lets a slot pass."""

    def __init__(self, mask: NDArray[np.bool_], device: torch.device) -> None:
        self._packed = np.packbits(mask, bitorder="little")
        self._device = device
        self._view: View | None = None

    def covering(self, slots: int) -> View:
        """It, with a bit for each of so many slots at least; those beyond the mask do not pass."""
        if self._view is None or self._view.tensor.numel() * WORD < slots:
            bits = max(slots, len(self._packed) * 8)
            rounded = -(-bits // BITS_AT_ONCE) * BITS_AT_ONCE
            words = np.zeros(rounded // WORD, np.uint32)
            words.view(np.uint8)[: len(self._packed)] = self._packed
            self._view = View(torch.from_numpy(words).to(self._device))
        return self._view


class _Footer(NamedTuple):
    """What stands behind cuVS' own bytes in a file, since nothing can be asked of loaded lists.

    It also tells a file that was cut short: cuVS 26.10 never returns from reading one.
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
        """Reads it.

        Raises:
            ListsError: There is none, or what it stands behind is not as long as it was.
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
"""MAGIC, cuVS' version, the length of cuVS' own bytes, dimension, end, and how many sizes precede
it."""


class _Workspace:
    """What the lists of a library share: the lanes, and the searches' parameters and memory.

    `forgotten` are indexes of lists that nobody has any more and nobody has closed.
    """

    def __init__(self, cuvs: Cuvs, lanes: _Lanes, device: torch.device) -> None:
        self.cuvs = cuvs
        self.searching, self.building = lanes
        self.device = device
        self.forgotten: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.parameters = POINTER(SearchParams)()
        cuvs.call("cuvsIvfFlatSearchParamsCreate", byref(self.parameters))
        self.queries = Buffer(torch.float16, device)
        self.slots = Buffer(torch.int64, device)
        self.distances = Buffer(torch.float32, device)

    def build(self, work: Callable[[], T], what: str) -> T:
        """Does work where lists are made, after the memory of forgotten ones is free.

        Raises:
            ListsError: As `Lane.run`.
        """

        def done() -> T:
            self._free_forgotten()
            return work()

        return self.building.run(done, what)

    def _free_forgotten(self) -> None:
        with suppress(queue.Empty):
            while True:
                self.cuvs.call("cuvsIvfFlatIndexDestroy", self.forgotten.get_nowait())

    def make_room(self, size: int) -> None:
        """Takes so many bytes and gives them back, so that what follows finds them in the pool.

        Raises:
            CuvsError: They are not to be had.
        """
        taken = ctypes.c_void_p()
        self.building.call("cuvsRMMAlloc", byref(taken), size)
        self.building.call("cuvsRMMFree", taken, size)

    def close(self) -> None:
        self._free_forgotten()
        self.cuvs.call("cuvsIvfFlatSearchParamsDestroy", self.parameters)


class _Lanes(NamedTuple):
    """Where lists are searched, and where they are made, extended and freed."""

    searching: Lane
    building: Lane

    @classmethod
    def on(cls, streams: Streams, cuvs: Cuvs, pool: MemoryPool) -> _Lanes:
        """Opens both, or none."""
        searching = Lane(cuvs, streams.searching, pool, name="cuvs-search")
        try:
            return cls(searching, Lane(cuvs, streams.building, pool, name="cuvs-build"))
        except BaseException:
            searching.close()
            raise

    def close(self) -> None:
        """Ends both."""
        for lane in self:
            lane.close()


class _Trained(NamedTuple):
    """An index of cuVS and what is known of it. `centres`: float32 (n_lists, dimension)."""

    index: Any
    centres: torch.Tensor
    sizes: NDArray[np.int64]
    end: int


class _NewRows(NamedTuple):
    """Rows that are to be added. Held until a lane has waited: the device reads them till then.

    `counts` are those of each list: int64 (n_lists,). `end` is one more than the last slot.
    """

    rows: View
    ids: View
    counts: NDArray[np.int64]
    end: int


_Filling: TypeAlias = Callable[[Any], _Trained]
"""Builds an index, or reads one, where it is told to."""


class CuvsLists:
    """`InvertedLists` in an IVF-Flat index of cuVS.

    Lists that nobody has any more are freed as those that are closed, when the library next makes
    or extends some.

    Args:
        workspace: Of the library that made it.
        trained: The index; destroyed by `close`.
    """

    def __init__(self, workspace: _Workspace, trained: _Trained) -> None:
        self._workspace = workspace
        self._index: Any = trained.index
        self._centres = trained.centres
        self._sizes = trained.sizes
        self._end = trained.end
        self._is_torn = False
        self._lock = SharedLock()
        # Put aside only: what runs when memory is collected must not wait for a lane.
        self._forget = weakref.finalize(self, workspace.forgotten.put, trained.index)
        self._forget.atexit = False

    @property
    def n_lists(self) -> int:
        """How many lists there are."""
        return len(self._sizes)

    def list_sizes(self) -> NDArray[np.int64]:
        """How many rows each list has, by the rule cuVS goes by, which tells none: (n_lists,)."""
        return self._sizes

    def extend(self, vectors: torch.Tensor, slots: torch.Tensor) -> None:
        """Adds rows: float16 (n, dimension), and their slots: int64 (n,), ascending and new.

        Raises:
            ValueError: A slot is not new; nothing was added.
            OutOfMemoryError: They did not fit. Room is made beforehand, and then nothing was
                added; if cuVS fails all the same, the lists can only be closed.
        """
        if not len(slots):
            return
        its, what = self._workspace, f"{len(slots):,} more rows in lists"
        new = its.build(lambda: self._prepared(vectors, slots), what)
        # What takes longest is done; now no search may read what is moved.
        with self._lock.alone():
            its.build(lambda: self._extend(new), what)

    def _prepared(self, vectors: torch.Tensor, slots: torch.Tensor) -> _NewRows:
        """What is to be added, and to which lists."""
        self._usable()
        numbers = slots.cpu().numpy()
        if numbers[0] < self._end or not (np.diff(numbers) > 0).all():
            raise ValueError(f"slots must ascend from {self._end}: rows are kept once")
        rows, ids = View(vectors.contiguous()), View(slots.contiguous())
        return _NewRows(rows, ids, self._counts(rows.tensor), int(numbers[-1]) + 1)

    def _extend(self, new: _NewRows) -> None:
        index, lane = self._usable(), self._workspace.building
        self._workspace.make_room(self._needed(new.counts))
        # cuVS moves list after list to its new place and corrects what points to them at the end.
        self._is_torn = True
        lane.call("cuvsIvfFlatExtend", new.rows.reference, new.ids.reference, index)
        lane.wait()
        self._is_torn = False
        self._sizes = self._sizes + new.counts
        self._end = new.end

    def _counts(self, rows: torch.Tensor) -> NDArray[np.int64]:
        """How many of the rows go to each list: int64 (n_lists,)."""
        counts = torch.zeros(self.n_lists, dtype=torch.int64, device=rows.device)
        for start in range(0, len(rows), ROWS_AT_ONCE):
            part = rows[start : start + ROWS_AT_ONCE]
            nearest = (part.float() @ self._centres.T).argmax(dim=1)
            counts += torch.bincount(nearest, minlength=self.n_lists)
        made: NDArray[np.int64] = counts.cpu().numpy()
        return made

    def _needed(self, added: NDArray[np.int64]) -> int:
        """Bytes for the rows of each list that grows, whole groups, and for moving the longest."""
        longest = int((self._sizes + added).max())
        rows = int(added.sum()) + GROUP * int((added > 0).sum()) + longest + GROUP
        return rows * (2 * self._centres.shape[1] + 8)

    def allow(self, mask: NDArray[np.bool_]) -> AllowedRows:
        """Makes of a mask, bool (slots,), what `search` takes; slots beyond it do not pass."""
        bitset = _Bitset(mask, self._workspace.device)
        what = f"a bitset of {len(mask):,} slots"
        self._workspace.searching.run(lambda: bitset.covering(self._end), what)
        return bitset

    def search(
        self, queries: torch.Tensor, k: int, n_probes: int, allowed: AllowedRows | None
    ) -> Nearest:
        """Finds the `k` nearest rows in the `n_probes` nearest lists of each query.

        Args:
            queries: float32 (b, dimension).
            k: 1 to 256.
            n_probes: 1 to `n_lists`.
            allowed: The rows that may be found; None for every row.

        Raises:
            ValueError: `k` is more, or the dimension another.
            OutOfMemoryError: What it takes for a while did not fit.
        """
        if not 1 <= k <= MOST_FOUND:
            raise ValueError(f"k must be 1 to {MOST_FOUND}, got {k}")
        dimension = self._centres.shape[1]
        if queries.shape[1] != dimension:
            raise ValueError(f"queries must have {dimension} dimensions, got {queries.shape[1]}")
        assert allowed is None or isinstance(allowed, _Bitset), "made by others; this is a bug"
        what = f"a search of {n_probes:,} lists for {len(queries)} queries"
        lane = self._workspace.searching
        with self._lock.shared():
            return lane.run(lambda: self._search(queries, k, n_probes, allowed), what)

    def _search(
        self, queries: torch.Tensor, k: int, n_probes: int, allowed: _Bitset | None
    ) -> Nearest:
        index, its = self._usable(), self._workspace
        shape = (len(queries), k)
        slots, distances = its.slots.shaped(*shape), its.distances.shaped(*shape)
        # What is not written must not be what an earlier search found.
        slots.fill_(-1)
        distances.fill_(-torch.inf)
        if self._end and len(queries):
            its.queries.shaped(*queries.shape).copy_(queries)
            its.parameters.contents.n_probes = n_probes
            its.searching.call(
                "cuvsIvfFlatSearch",
                *(its.parameters, index),
                *(its.queries.reference, its.slots.reference, its.distances.reference),
                self._filter(allowed),
            )
        found = (slots >= 0) & (slots < self._end) & (distances.abs() < IMPOSSIBLE_SCORE)
        return Nearest(torch.where(found, distances, -torch.inf), torch.where(found, slots, -1))

    def _filter(self, allowed: _Bitset | None) -> Filter:
        if allowed is None:
            return Filter(0, NO_FILTER)
        # By the slots there are, of which cuVS counts the rows only.
        return Filter(allowed.covering(self._end).address, BITSET)

    def save(self, path: Path) -> None:
        """Writes a file that `CuvsLibrary.load` of the same version reads."""
        self._workspace.build(lambda: self._save(path), "writing lists to a file")

    def _save(self, path: Path) -> None:
        its = self._workspace
        its.building.call("cuvsIvfFlatSerialize", os.fsencode(path), self._usable())
        length, dimension = path.stat().st_size, self._centres.shape[1]
        _Footer(its.cuvs.version, length, dimension, self._end, self._sizes).append_to(path)

    def _usable(self) -> Any:
        if self._index is None:
            raise ListsError("these lists are closed")
        if self._is_torn:
            raise ListsError("an extension broke off and left the lists torn: make them anew")
        return self._index

    def close(self) -> None:
        """Frees the memory. Nothing is called afterwards."""
        index, self._index = self._index, None
        its = self._workspace
        if self._forget.detach() is not None and not its.building.is_lost:
            its.build(lambda: its.cuvs.call("cuvsIvfFlatIndexDestroy", index), "freeing lists")


class CuvsLibrary:
    """What makes `CuvsLists`, and the two lanes that all of its lists share.

    Args:
        device: Where they are.
        cuvs: The library; loaded if it is not given.
        streams: What it works on; those of the device's own if they are not given.
        pool: How much memory cuVS takes; only the first in a process decides it.

    Raises:
        ListsError: cuVS is not installed, of a version that is not known, or does not find the
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
        self._lanes = _Lanes.on(streams or Streams.of(device), self._cuvs, pool or MemoryPool())
        self._workspace = _Workspace(self._cuvs, self._lanes, device)
        self._warmed: set[int] = set()

    @property
    def name(self) -> str:
        """The library and its version."""
        major, minor = self._cuvs.version
        return f"cuvs {major}.{minor}"

    def train(self, sample: torch.Tensor, n_lists: int) -> CuvsLists:
        """Makes empty lists about the centres of a sample: float16 (n, dimension).

        All of it is used, so that its order is of no account. The first time, whatever a search
        may need is made ready: see `warm_up`.

        Raises:
            ValueError: The sample is smaller than `n_lists`.
            OutOfMemoryError: They did not fit.
        """
        count, dimension = sample.shape
        if count < n_lists:
            raise ValueError(f"{n_lists} lists need as many rows to train on, got {count}")
        self.warm_up(dimension)
        return self._trained(sample, n_lists)

    def _trained(self, sample: torch.Tensor, n_lists: int) -> CuvsLists:
        what = f"training {n_lists:,} lists on {len(sample):,} rows"
        return self._workspace.build(
            lambda: self._lists(lambda at: self._build(at, sample, n_lists)), what
        )

    def _lists(self, fill: _Filling) -> CuvsLists:
        """Makes lists of an index that is filled, and none of one that cannot be."""
        index = POINTER(Index)()
        self._cuvs.call("cuvsIvfFlatIndexCreate", byref(index))
        try:
            return CuvsLists(self._workspace, fill(index))
        except BaseException:
            # On a device that is lost it cannot be freed either, and why it is matters more.
            with suppress(CuvsError):
                self._cuvs.call("cuvsIvfFlatIndexDestroy", index)
            raise

    def _build(self, index: Any, sample: torch.Tensor, n_lists: int) -> _Trained:
        parameters = POINTER(IndexParams)()
        self._cuvs.call("cuvsIvfFlatIndexParamsCreate", byref(parameters))
        try:
            its = parameters.contents
            its.metric = INNER_PRODUCT
            # Rows come with their slots, which only `extend` takes.
            its.add_data_on_build = False
            its.n_lists = n_lists
            its.kmeans_n_iters = TRAINING_ROUNDS
            its.kmeans_trainset_fraction = 1.0
            # Centres that follow the rows would make the order of writes decide what is found.
            its.adaptive_centers = False
            # Lists of whole groups, 5 to 20 % above what they hold, and not 44 %.
            its.conservative_memory_allocation = True
            rows = View(sample.contiguous())
            self._lanes.building.call("cuvsIvfFlatBuild", parameters, rows.reference, index)
            # Before the sample may be freed.
            self._lanes.building.wait()
        finally:
            self._cuvs.call("cuvsIvfFlatIndexParamsDestroy", parameters)
        centres = self._centres(index, n_lists, sample.shape[1])
        return _Trained(index, centres, np.zeros(n_lists, np.int64), 0)

    def _centres(self, index: Any, n_lists: int, dimension: int) -> torch.Tensor:
        """A copy of the centres: float32 (n_lists, dimension)."""
        copy = torch.empty((n_lists, dimension), device=self._workspace.device)
        # A view of the index's own memory, whatever the header says of a preallocated array.
        its = DLManagedTensor()
        self._cuvs.call("cuvsIvfFlatIndexGetCenters", index, byref(its))
        try:
            self._lanes.building.call("cuvsMatrixCopy", byref(its), View(copy).reference)
        finally:
            its.deleter(ctypes.addressof(its))
        return copy

    def load(self, path: Path) -> CuvsLists:
        """Reads lists that were saved.

        Raises:
            ListsError: The file is not what `CuvsLists.save` of this version writes.
            OutOfMemoryError: They did not fit.
        """
        try:
            footer = _Footer.of(path)
        except OSError as error:
            raise ListsError(f"{path.name} cannot be read as lists") from error
        if footer.version != self._cuvs.version:
            written = "cuvs {}.{}".format(*footer.version)
            raise ListsError(f"{path.name} was written by {written}, this is {self.name}")
        self.warm_up(footer.dimension)
        what = f"the lists in {path.name}"
        return self._workspace.build(
            lambda: self._lists(lambda at: self._read(at, path, footer)), what
        )

    def _read(self, index: Any, path: Path, footer: _Footer) -> _Trained:
        self._lanes.building.call("cuvsIvfFlatDeserialize", os.fsencode(path), index)
        n_lists, dimension = ctypes.c_int64(), ctypes.c_int64()
        self._cuvs.call("cuvsIvfFlatIndexGetNLists", index, byref(n_lists))
        self._cuvs.call("cuvsIvfFlatIndexGetDim", index, byref(dimension))
        if (n_lists.value, dimension.value) != (len(footer.sizes), footer.dimension):
            raise ListsError(f"{path.name} holds other lists than it says")
        centres = self._centres(index, n_lists.value, dimension.value)
        return _Trained(index, centres, footer.sizes, footer.end)

    def warm_up(self, dimension: int) -> None:
        """Searches once in each way that a kernel is linked for, so that no question waits for it.

        cuVS links its scan when it is first needed: for each capacity of the answer, a power of
        two up to 256, with and without a filter, and by what the dimension is a multiple of.

        Raises:
            OutOfMemoryError: Not even 64 rows fit.
            ListsError: The library failed.
        """
        if dimension in self._warmed:
            return
        rows = torch.randn((WARMED_ROWS, dimension), generator=torch.Generator().manual_seed(0))
        rows = torch.nn.functional.normalize(rows).to(self._workspace.device)
        lists = self._trained(rows.half(), WARMED_LISTS)
        try:
            lists.extend(rows.half(), torch.arange(WARMED_ROWS, device=rows.device))
            for allowed in (None, lists.allow(np.ones(WARMED_ROWS, np.bool_))):
                for power in range(MOST_FOUND.bit_length()):
                    lists.search(rows[:1], 1 << power, WARMED_LISTS, allowed)
        finally:
            lists.close()
        self._warmed.add(dimension)

    def close(self) -> None:
        """Frees what the library itself holds. Its lists are closed before."""
        if not self._lanes.building.is_lost:
            self._lanes.building.run(self._workspace.close, "closing")
        self._lanes.close()
