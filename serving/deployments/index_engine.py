"""The index engine that the settings name, and what is measured of it."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import attrgetter
from typing import Protocol

import torch

from serving.adapters.vector_index import ExactIndex, TieredIndex
from serving.adapters.vector_index.break_even import measured_exact_max_rows
from serving.adapters.vector_index.cuvs_c import MemoryPool
from serving.adapters.vector_index.cuvs_lists import CuvsLibrary
from serving.adapters.vector_index.device_memory import free_device_bytes
from serving.adapters.vector_index.errors import DeviceLostError, ListsError
from serving.adapters.vector_index.inverted_lists import ListsLibrary
from serving.config import IndexSettings
from serving.domain.errors import DependencyError
from serving.domain.index_costs import LEAST_EXACT_ROWS
from serving.domain.index_policy import IndexPolicy
from serving.domain.records import ItemKind
from serving.ports import IndexEngine, IndexTier
from serving.telemetry import (
    INDEX_FAILED_REBUILDS,
    INDEX_REBUILDS,
    INDEX_RECALL,
    INDEX_ROWS,
    Metric,
)

logger = logging.getLogger(__name__)

ENOUGH_FOR_LISTS = 1024
"""Fewer rows make no 32 lists of 32 rows each."""

MakeEngine = Callable[[], IndexEngine]


class LibraryOfGpu(ListsLibrary, Protocol):
    """A library of lists on a GPU, whose kernels are made ready beforehand."""

    def warm_up(self, dimension: int) -> None:
        """Has every kernel ready that a search of this dimension may need."""
        ...


class Gpus:
    """What there is for an index on a GPU."""

    def count(self) -> int:
        """How many devices torch finds."""
        return torch.cuda.device_count()

    def library(self, device: str, share: float) -> LibraryOfGpu:
        """What makes lists there, of at most this share of the device's memory.

        Raises:
            ListsError: It is not installed, or cannot be used.
        """
        return _cuvs_on(device, share)


@functools.cache
def _cuvs_on(device: str, share: float) -> LibraryOfGpu:
    """The library of this process, for all of its indexes: cuVS has one pool in a process."""
    its = torch.device(device)
    free, total = torch.cuda.mem_get_info(its)
    return CuvsLibrary(its, pool=MemoryPool.of(int(share * total), free))


def engine_maker(
    settings: IndexSettings, dimension: int, *, gpu_share: float = 1.0, gpus: Gpus | None = None
) -> MakeEngine:
    """Decides how rows are kept, and returns what makes empty engines that keep them so.

    Loads the library of lists only if it may be needed. On a GPU all is ready for the first
    search then, which takes seconds.

    Args:
        settings: The index's.
        dimension: Of all vectors.
        gpu_share: Of the memory of the GPU, what this process may take, 0 to 1.
        gpus: What there is; that of this machine if it is not given.

    Raises:
        DependencyError: The device is not there, or there can be no lists and they are asked for.
    """
    gpus = gpus or Gpus()
    library: ListsLibrary | None = None
    if settings.device != "cpu":
        _require_device(settings.device, gpus.count())
        if settings.kind != "exact":
            library = _library_of_gpu(settings, dimension, settings.lists_share * gpu_share, gpus)
    elif settings.kind != "exact":
        from serving.adapters.vector_index.faiss_lists import FaissLibrary

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
    """What makes lists on the GPU; None if nothing does, and nobody insists on it."""
    try:
        library = gpus.library(settings.device, share)
        library.warm_up(dimension)
    except DeviceLostError:
        raise
    except ListsError as error:
        if settings.kind == "ivf":
            raise DependencyError("index", f"index.kind is ivf, and {error}") from error
        logger.warning(
            "index reads every vector: it cannot make lists",
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
    # Of the memory of lists only cuVS can tell what is left, and refuses what does not fit.
    free = partial(free_device_bytes, torch.device(settings.device))
    return make(memory=free, needs=attrgetter("vector_bytes"))


def _exact_max_rows(settings: IndexSettings) -> int:
    if settings.exact_max_rows != "auto":
        return settings.exact_max_rows
    return ENOUGH_FOR_LISTS if settings.kind == "ivf" else LEAST_EXACT_ROWS


Figure = tuple[Metric, float, dict[str, str]]


def tier_figures(tiers: Iterable[IndexTier]) -> Iterator[Figure]:
    """What is recorded of the tiers of all tenants, by kind."""
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
