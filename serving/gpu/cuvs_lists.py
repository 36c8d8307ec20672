"""Inverted lists on a GPU, by the official bindings of cuVS.

Vectors are stored and scored in float16, so candidates must be scored again. The bindings hold the
GIL during every call, so that the process answers nothing meanwhile. Training takes longest: that
of many lists runs in a process of its own, and only their centroids are loaded here.

All calls use the default stream of one handle, one at a time: `Resources(stream=...)` takes the
address of a Python integer as the stream (cuvs#1863).
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from serving.adapters.vector_index.lists.inverted_lists import (
    ListFilter,
    ListsError,
    OutOfMemoryError,
)
from serving.adapters.vector_index.rule import MAX_CANDIDATES
from serving.gpu import train_lists

IMPOSSIBLE_SCORE = 1e30
"""Far beyond any score of unit vectors; cuVS leaves such scores with slots that it did not find."""

TRAINED_HERE = 20_000
"""A sample of up to this many rows is trained in this process, which takes some milliseconds. A
process of its own takes seconds to start."""

WORD_BITS = 32
"""A filter of cuVS is an array of uint32."""

WARM_UP_LISTS, WARM_UP_ROWS = 4, 64

OUT_OF_MEMORY = re.compile(
    r"cudaErrorMemoryAllocation|out_of_memory|OutOfMemoryError|CUBLAS_STATUS_ALLOC_FAILED"
    r"|std::bad_alloc$",
    re.MULTILINE,
)
"""Messages of CUDA, RMM, cuBLAS and C++ about exhausted memory. RMM prefixes every failed
allocation with `std::bad_alloc`, even one on a lost device; alone it refers to host memory."""


@dataclass(frozen=True, slots=True)
class _Device:
    """A device, the one handle of cuVS for it, and the lock of its calls."""

    device: torch.device
    resources: Any
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def call(self, what: str) -> Iterator[Any]:
        """Runs a call after what torch has queued, waits for it, and translates its errors.

        Raises:
            OutOfMemoryError: `what` did not fit.
            torch.AcceleratorError: The device is lost.
            ListsError: cuVS reported another error.
        """
        from cuvs.common.exceptions import CuvsException

        try:
            with self.lock, torch.cuda.device(self.device):
                torch.cuda.current_stream().synchronize()
                yield self.resources
                self.resources.sync()
        except torch.OutOfMemoryError as error:
            raise OutOfMemoryError(what) from error
        except CuvsException as error:
            text = str(error)
            if OUT_OF_MEMORY.search(text):
                raise OutOfMemoryError(what) from error
            # Fails, and so reports the loss, if the error was one that no later call survives.
            torch.cuda.synchronize(self.device)
            raise ListsError(f"cuVS failed: {text}".splitlines()[0]) from error


class CuvsLists:
    """`InvertedLists` in an IVF-Flat index of cuVS."""

    def __init__(self, device: _Device, index: Any, n_lists: int) -> None:
        self._device = device
        self._index = index
        self.n_lists = n_lists
        self._end = 0
        self._is_broken = False

    @contextmanager
    def _call(self, what: str) -> Iterator[Any]:
        with self._device.call(what) as resources:
            if self._is_broken:
                raise ListsError("the lists could not be extended and must be rebuilt")
            yield resources

    def extend(self, vectors: torch.Tensor, slots: torch.Tensor) -> None:
        from cuvs.neighbors import ivf_flat

        if not len(slots):
            return
        if int(slots[0]) < self._end or not bool((slots.diff() > 0).all()):
            raise ValueError(f"slots must ascend from {self._end}: rows are stored once")
        rows, numbers = vectors.contiguous(), slots.contiguous()
        with self._call(f"{len(slots):,} more rows in lists") as resources:
            # Broken until it has succeeded: cuVS moves the lists one by one, and if memory runs
            # out in between, their lengths and pointers do not match.
            self._is_broken = True
            ivf_flat.extend(self._index, rows, numbers, resources=resources)
            self._is_broken = False
            self._end = int(slots[-1]) + 1

    def allow(self, mask: NDArray[np.bool_]) -> ListFilter:
        return _Filter(np.packbits(mask, bitorder="little"))

    def search(
        self, queries: torch.Tensor, k: int, n_probes: int, allowed: ListFilter | None
    ) -> torch.Tensor:
        from cuvs.neighbors import ivf_flat

        rows = queries.half().contiguous()
        slots = torch.full((len(rows), k), -1, dtype=torch.int64, device=rows.device)
        scores = torch.full((len(rows), k), torch.inf, device=rows.device)
        if not self._end or not len(rows):
            return slots
        with self._call(f"a search of {n_probes:,} lists") as resources:
            ivf_flat.search(
                ivf_flat.SearchParams(n_probes=n_probes),
                self._index,
                rows,
                k,
                neighbors=slots,
                distances=scores,
                resources=resources,
                filter=allowed.covering(self._end) if isinstance(allowed, _Filter) else None,
            )
        return slots.where(scores.abs() < IMPOSSIBLE_SCORE, -1)


class _Filter:
    """A mask of slots, which is converted again when there are more slots than it has bits.

    cuVS reads the bit of every slot in its lists, without a check of the length.
    """

    def __init__(self, packed: NDArray[np.uint8]) -> None:
        self._packed = packed
        self._word_count = 0
        self._prefilter: Any = None

    def covering(self, slots: int) -> Any:
        """The mask of at least this number of slots, those beyond its own end excluded."""
        from cuvs.neighbors import filters

        count = -(-slots // WORD_BITS)
        if self._prefilter is None or self._word_count < count:
            words = np.zeros(max(count, -(-len(self._packed) // 4)), np.uint32)
            words.view(np.uint8)[: len(self._packed)] = self._packed
            self._prefilter = filters.from_bitset(torch.from_numpy(words).cuda())
            torch.cuda.current_stream().synchronize()
            self._word_count = len(words)
        return self._prefilter


class CuvsLibrary:
    """A `ListsLibrary` of `CuvsLists`; raises ListsError if cuVS is not installed."""

    holds_searches = True  # each call has the interpreter's lock

    def __init__(self, device: torch.device) -> None:
        try:
            import rmm
            from cuvs.common import Resources
        except ImportError as error:
            why = "cuVS is not installed: `make install-gpu` installs it, see docs/gpu.md"
            raise ListsError(why) from error
        try:
            with torch.cuda.device(device):
                # Without a pool, each search allocates and frees memory: half of its time.
                rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource())
                self._device = _Device(device, Resources())
        except RuntimeError as error:
            # Such as a driver without pools of memory.
            why = f"cuVS cannot use {device}: {error}"
            raise ListsError(why.splitlines()[0]) from error

    def train(self, sample: torch.Tensor, n_lists: int) -> CuvsLists:
        count = len(sample)
        if count < n_lists:
            raise ValueError(f"{n_lists} lists need as many rows to train on, got {count}")
        rows, what = sample.contiguous(), f"training {n_lists:,} lists on {count:,} rows"
        if count <= TRAINED_HERE:
            with self._device.call(what) as resources:
                index = train_lists.train(rows, n_lists, resources)
        else:
            index = self._trained_elsewhere(rows, n_lists, what)
        return CuvsLists(self._device, index, n_lists)

    def _trained_elsewhere(self, rows: torch.Tensor, n_lists: int, what: str) -> Any:
        from cuvs.neighbors import ivf_flat

        device = self._device.device
        with TemporaryDirectory(prefix="trivium-lists-") as folder:
            sample, lists = Path(folder, "sample.npy"), Path(folder, "lists")
            np.save(sample, rows.cpu().numpy())
            # -P: no module of its folder must hide one that it imports.
            program = [sys.executable, "-P", train_lists.__file__]
            arguments = [str(sample), str(lists), str(n_lists), str(device)]
            ran = subprocess.run([*program, *arguments], capture_output=True, text=True)
            if OUT_OF_MEMORY.search(ran.stderr):
                raise OutOfMemoryError(what)
            if ran.returncode:
                last = (ran.stderr.strip().splitlines() or [f"status {ran.returncode}"])[-1]
                raise ListsError(f"{what} failed: {last}")
            with self._device.call(what) as resources:
                return ivf_flat.load(str(lists), resources=resources)

    def warm_up(self, dimension: int) -> None:
        """Runs one search for each kernel variant, so that no user query waits for linking.

        cuVS links its scan kernel on first use: per capacity of the result (a power of two up to
        256), with and without a filter, and by the alignment of the dimension. Raises ListsError if
        the library failed.
        """
        rows = torch.nn.functional.normalize(torch.randn(WARM_UP_ROWS, dimension))
        rows = rows.to(self._device.device)
        lists = self.train(rows.half(), WARM_UP_LISTS)
        lists.extend(rows.half(), torch.arange(WARM_UP_ROWS, device=rows.device))
        for allowed in (None, lists.allow(np.ones(WARM_UP_ROWS, np.bool_))):
            for power in range(MAX_CANDIDATES.bit_length()):
                lists.search(rows[:1], 1 << power, WARM_UP_LISTS, allowed)
