"""The index engine that the settings name, and its metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from serving.adapters.vector_index import ExactIndex, IndexRule, TieredIndex
from serving.adapters.vector_index.lists import CpuLibrary
from serving.adapters.vector_index.lists.inverted_lists import ListsError, ListsLibrary
from serving.composition.gpu import LibraryOfGpu, missing_device, open_lists
from serving.config.settings import IndexSettings
from serving.domain.errors import DependencyError
from serving.domain.items.records import ItemKind
from serving.ports.index_engine import IndexEngine
from serving.ports.vector_index import CONTEXT, IndexTier
from serving.telemetry import INDEX_FAILED_REBUILDS, INDEX_REBUILDS, INDEX_ROWS, Metric

logger = logging.getLogger(__name__)

ENOUGH_FOR_LISTS = 32
"""Fewer rows are one list, of which all would be read."""

MakeEngine = Callable[[], IndexEngine]


class Gpus:
    """The GPUs of this machine."""

    def count(self) -> int:
        """Returns the number of devices that torch finds."""
        try:
            import torch
        except ModuleNotFoundError:
            return 0
        return torch.cuda.device_count()

    def library(self, device: str) -> LibraryOfGpu:
        """Returns a library of inverted lists on the device; raises ListsError if it has none."""
        return open_lists(device)


def engine_maker(
    settings: IndexSettings, dimension: int, *, gpus: Gpus | None = None
) -> MakeEngine:
    """Returns a factory of empty engines of the configured kind.

    Loads the library of inverted lists only if it may be needed. On a GPU that takes seconds, since
    all kernels are compiled before the first search. Raises DependencyError if the device does not
    exist, or lists are required and unavailable.
    """
    gpus = gpus or Gpus()
    library: ListsLibrary | None = None
    if settings.device != "cpu":
        if fault := missing_device("index", settings.device, gpus.count()):
            raise DependencyError("index", fault)
        if settings.kind != "exact":
            library = _library_of_gpu(settings, dimension, gpus)
    elif settings.kind != "exact":
        library = CpuLibrary(threads=settings.build_threads)
    if library is None:
        host_rows = IndexRule.of(dimension, settings.device).host_rows
        return partial(ExactIndex, dimension, device=settings.device, host_rows=host_rows)
    if settings.kind == "ivf":
        rule = IndexRule(max_scanned_rows=ENOUGH_FOR_LISTS)
    else:
        rule = IndexRule.of(dimension, settings.device)
    return partial(TieredIndex, dimension, library, rule, device=settings.device)


def _library_of_gpu(settings: IndexSettings, dimension: int, gpus: Gpus) -> ListsLibrary | None:
    """Returns the library of lists on the GPU; None if it is unavailable and not required."""
    try:
        library = gpus.library(settings.device)
        library.warm_up(dimension)
    except ListsError as error:
        if settings.kind == "ivf":
            raise DependencyError("index", f"index.kind is ivf, and {error}") from error
        logger.warning(
            "inverted lists unavailable: the index scans every vector",
            extra={"device": settings.device, "reason": str(error)},
        )
        return None
    return library


Figure = tuple[Metric, float, dict[str, str]]


def tier_figures(tiers: Iterable[IndexTier]) -> Iterator[Figure]:
    """Yields the metrics of the tiers of all tenants, by kind."""
    by_kind: dict[str, list[IndexTier]] = {kind: [] for kind in (*ItemKind, CONTEXT)}
    for tier in tiers:
        by_kind[tier.kind].append(tier)
    for kind, same in by_kind.items():
        rows = {
            "exact": sum(tier.rows for tier in same if not tier.approximate),
            "approximate": sum(tier.rows for tier in same if tier.approximate),
            "dead": sum(tier.dead for tier in same),
        }
        labels = {"kind": str(kind)}
        for place, count in rows.items():
            yield INDEX_ROWS, count, {**labels, "place": place}
        yield INDEX_REBUILDS, sum(bool(tier.rebuilding) for tier in same), labels
        yield INDEX_FAILED_REBUILDS, sum(bool(tier.failure) for tier in same), labels
