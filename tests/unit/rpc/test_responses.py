"""Domain values into responses."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from serving.domain.items.records import ItemKind
from serving.pipeline.writes.stats import About, Overview
from serving.ports.memory_store import TenantCounts
from serving.ports.vector_index import IndexStatus, IndexTier
from serving.rpc.responses import from_overview
from trivium.v1 import catalog_service_pb2


def test_stats_show_the_search_of_each_kind() -> None:
    exact = IndexTier(kind=ItemKind.FACT, rows=40, dead=2, memory_bytes=50_000)
    lists = IndexTier(
        kind=ItemKind.SEGMENT,
        rows=90_000,
        dead=1000,
        memory_bytes=10**8,
        approximate=True,
        rebuilding="filling 40 %",
        failure="no memory",
    )

    stats = from_overview(overview(IndexStatus(True, 90_040, 3, tiers=(lists, exact))))

    assert list(stats.index.tiers) == [
        catalog_service_pb2.IndexTier(
            kind="segment",
            vector_count=90_000,
            dead_count=1000,
            approximate=True,
            rebuilding="filling 40 %",
            failure="no memory",
            memory_bytes=10**8,
        ),
        catalog_service_pb2.IndexTier(
            kind="fact", vector_count=40, dead_count=2, memory_bytes=50_000
        ),
    ]


def test_counts_that_are_not_known_are_unset() -> None:
    nothing = overview(IndexStatus(True, 0, 1))

    assert from_overview(nothing).HasField("tenant")
    assert not from_overview(replace(nothing, tenant=None)).HasField("tenant")


def overview(index: IndexStatus) -> Overview:
    """A service with this index and nothing else to tell of."""
    return Overview(
        about=About(
            version="1",
            placement="single",
            ingress="direct",
            started_at=datetime(2026, 1, 1, tzinfo=UTC),
        ),
        tenant=TenantCounts(0, 0, 0, 0, 0, "", ""),
        projections=[],
        dead_letters=[],
        index=index,
        model=None,
        entities=0,
    )
