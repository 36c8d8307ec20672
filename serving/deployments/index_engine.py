"""The index engine that the settings name, and what is measured of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from serving.adapters.vector_index import ExactIndex, TieredIndex
from serving.config import IndexSettings
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

ENOUGH_FOR_LISTS = 1024
"""Fewer rows make no 32 lists of 32 rows each."""


def make_index_engine(settings: IndexSettings, dimension: int) -> IndexEngine:
    """Makes an empty engine; imports the library of lists only if it may be needed."""
    if settings.kind == "exact":
        return ExactIndex(dimension)
    from serving.adapters.vector_index.break_even import measured_exact_max_rows
    from serving.adapters.vector_index.faiss_lists import FaissLibrary

    library = FaissLibrary(threads=settings.build_threads)
    measured = settings.exact_max_rows == "auto" and settings.kind == "auto"
    return TieredIndex(
        dimension,
        library,
        IndexPolicy(exact_max_rows=_exact_max_rows(settings), recall_target=settings.recall_target),
        measure=partial(measured_exact_max_rows, library, dimension) if measured else None,
    )


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
