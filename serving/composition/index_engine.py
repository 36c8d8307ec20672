"""The index engine that the settings name, and its metrics."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import attrgetter
from typing import Protocol

from serving.adapters.vector_index import ExactIndex, TieredIndex
from serving.adapters.vector_index.lists.errors import ListsDeviceLostError, ListsError
from serving.adapters.vector_index.lists.inverted_lists import ListsLibrary
from serving.adapters.vector_index.tuning.break_even import measured_exact_max_rows
from serving.adapters.vector_index.tuning.costs import LEAST_EXACT_ROWS
from serving.adapters.vector_index.tuning.policy import IndexPolicy
from serving.config.settings import IndexSettings
from serving.domain.errors import DependencyError
from serving.domain.items.records import ItemKind
from serving.ports.index_engine import IndexEngine
from serving.ports.vector_index import IndexTier
from serving.telemetry import (
    INDEX_FAILED_REBUILDS,
    INDEX_REBUILDS,
    INDEX_RECALL,
    INDEX_ROWS,
    Metric,
)

logger = logging.getLogger(__name__)

ENOUGH_FOR_LISTS = 1024
"""Fewer rows do not fill 32 lists of 32 rows."""

MakeEngine = Callable[[], IndexEngine]


class LibraryOfGpu(ListsLibrary, Protocol):
    """A library of inverted lists on a GPU, whose kernels are compiled beforehand."""

    def warm_up(self, dimension: int) -> None:
        """Compiles every kernel that a search of this dimension may need."""
        ...


class Gpus:
    """The GPUs of this machine."""

    def count(self) -> int:
        """Returns the number of devices that torch finds."""
        try:
            import torch
        except ModuleNotFoundError:
            return 0
        return torch.cuda.device_count()

    def library(self, device: str, share: float) -> LibraryOfGpu:
        """Returns a library that uses at most this share of the device's memory.

        Raises:
            ListsError: It is not installed, or cannot be used.
        """
        return _cuvs_on(device, share)


@functools.cache
def _cuvs_on(device: str, share: float) -> LibraryOfGpu:
    """Returns the library that all indexes of this process share: cuVS has one memory pool."""
    # Imported here because a desk has no torch.
    import torch

    from serving.adapters.vector_index.lists.cuvs_c import MemoryPool
    from serving.adapters.vector_index.lists.cuvs_lists import CuvsLibrary

    gpu = torch.device(device)
    free, total = torch.cuda.mem_get_info(gpu)
    return CuvsLibrary(gpu, pool=MemoryPool.of(int(share * total), free))


def engine_maker(
    settings: IndexSettings, dimension: int, *, gpu_share: float = 1.0, gpus: Gpus | None = None
) -> MakeEngine:
    """Returns a factory of empty engines of the configured kind.

    Loads the library of inverted lists only if it may be needed. On a GPU that takes seconds, since
    all kernels are compiled before the first search.

    Args:
        settings: Those of the index.
        dimension: The dimension of all vectors.
        gpu_share: This process's share of the GPU's memory, 0 to 1.
        gpus: The GPUs; by default those of this machine.

    Raises:
        DependencyError: The device does not exist, or lists are required and unavailable.
    """
    gpus = gpus or Gpus()
    library: ListsLibrary | None = None
    if settings.device != "cpu":
        _require_device(settings.device, gpus.count())
        if settings.kind != "exact":
            library = _library_of_gpu(settings, dimension, settings.lists_share * gpu_share, gpus)
    elif settings.kind != "exact":
        from serving.adapters.vector_index.lists.faiss_lists import FaissLibrary

        library = FaissLibrary(threads=settings.build_threads)
    if library is None:
        return partial(ExactIndex, dimension, device=settings.device)
    return partial(_tiered, settings, dimension, library)


def _require_device(device: str, count: int) -> None:
    _, _, number = device.partition(":")
    if int(number or 0) >= count:
        why = f"index.device is {device}, and torch finds {count} CUDA devices"
        raise DependencyError("index", why)


def _library_of_gpu(
    settings: IndexSettings, dimension: int, share: float, gpus: Gpus
) -> ListsLibrary | None:
    """Returns the library of lists on the GPU; None if it is unavailable and not required."""
    try:
        library = gpus.library(settings.device, share)
        library.warm_up(dimension)
    except ListsDeviceLostError:
        raise
    except ListsError as error:
        if settings.kind == "ivf":
            raise DependencyError("index", f"index.kind is ivf, and {error}") from error
        logger.warning(
            "inverted lists unavailable: the index scans every vector",
            extra={"device": settings.device, "reason": str(error)},
        )
        return None
    return library


def _tiered(settings: IndexSettings, dimension: int, library: ListsLibrary) -> TieredIndex:
    measured = settings.exact_max_rows == "auto" and settings.kind == "auto"
    measure = partial(measured_exact_max_rows, library, dimension, device=settings.device)
    make = partial(
        TieredIndex,
        dimension,
        library,
        IndexPolicy(exact_max_rows=_exact_max_rows(settings), recall_target=settings.recall_target),
        device=settings.device,
        measure=measure if measured else None,
    )
    if settings.device == "cpu":
        return make()
    # Only cuVS knows how much memory is left for lists, and it rejects what does not fit.
    from serving.adapters.vector_index.lists.device_memory import free_device_bytes

    free = partial(free_device_bytes, settings.device)
    return make(memory=free, needs=attrgetter("vector_bytes"))


def _exact_max_rows(settings: IndexSettings) -> int:
    if settings.exact_max_rows != "auto":
        return settings.exact_max_rows
    return ENOUGH_FOR_LISTS if settings.kind == "ivf" else LEAST_EXACT_ROWS


Figure = tuple[Metric, float, dict[str, str]]


def tier_figures(tiers: Iterable[IndexTier]) -> Iterator[Figure]:
    """Yields the metrics of the tiers of all tenants, by kind."""
    by_kind: dict[ItemKind, list[IndexTier]] = {kind: [] for kind in ItemKind}
    for tier in tiers:
        by_kind[tier.kind].append(tier)
    for kind, same in by_kind.items():
        yield from _figures_of(kind.value, same)


def _figures_of(kind: str, tiers: list[IndexTier]) -> Iterator[Figure]:
    in_lists = [tier for tier in tiers if tier.n_lists]
    tail = sum(tier.tail for tier in in_lists)
    rows = {
        "exact": sum(tier.rows for tier in tiers if not tier.n_lists),
        "lists": sum(tier.rows for tier in in_lists) - tail,
        "tail": tail,
        "dead": sum(tier.dead for tier in tiers),
    }
    for place, count in rows.items():
        yield INDEX_ROWS, count, {"kind": kind, "place": place}
    yield INDEX_RECALL, min((tier.recall for tier in in_lists), default=1.0), {"kind": kind}
    yield INDEX_REBUILDS, sum(bool(tier.rebuilding) for tier in tiers), {"kind": kind}
    yield INDEX_FAILED_REBUILDS, sum(bool(tier.failure) for tier in tiers), {"kind": kind}
