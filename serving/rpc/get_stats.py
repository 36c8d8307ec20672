"""GetStats: reads the request, and writes the state of the service."""

from __future__ import annotations

from collections.abc import Sequence

from serving.domain.items.records import TenantName
from serving.pipeline.writes.stats import Overview
from serving.ports.memory_store import TenantCounts
from serving.ports.vector_index import IndexTier
from serving.rpc.check import Checker
from serving.rpc.items import duration, from_reference, timestamp
from trivium.v1 import catalog_service_pb2 as catalog_pb


def to_stats_tenant(request: catalog_pb.GetStatsRequest) -> TenantName:
    """Reads a GetStatsRequest."""
    with Checker() as check:
        return check.tenant(request.tenant)


def from_overview(
    overview: Overview, legs: Sequence[catalog_pb.LegStats] = ()
) -> catalog_pb.GetStatsResponse:
    """Writes the state of the service, and how the legs of this replica have answered lately."""
    return catalog_pb.GetStatsResponse(
        tenant=_tenant_stats(overview.tenant, overview.entities) if overview.tenant else None,
        projections=[
            catalog_pb.ProjectionStats(
                projection=status.projection,
                pending_count=status.pending,
                lag=duration(status.lag_s),
                dead_letter_count=status.dead_letter_count,
            )
            for status in overview.projections
        ],
        index=catalog_pb.IndexStats(
            ready=overview.index.ready,
            vector_count=overview.index.vector_count,
            epoch=overview.index.epoch,
            reason=overview.index.reason,
            tiers=[_tier(tier) for tier in overview.index.tiers],
        ),
        service=catalog_pb.ServiceStats(
            version=overview.about.version,
            placement=overview.about.placement,
            ingress=overview.about.ingress,
            model_fingerprint=overview.model.fingerprint if overview.model else "",
            dimension=overview.model.dimension if overview.model else 0,
            started_at=timestamp(overview.about.started_at),
            degraded=overview.degraded,
        ),
        dead_letters=[
            catalog_pb.DeadLetter(
                projection=row.projection,
                item=from_reference(row.item),
                reason=row.reason,
                dead_lettered_at=timestamp(row.at),
            )
            for row in overview.dead_letters
        ],
        legs=legs,
    )


def _tenant_stats(counts: TenantCounts, entities: int) -> catalog_pb.TenantStats:
    return catalog_pb.TenantStats(
        segment_count=counts.segments,
        sensitive_segment_count=counts.sensitive_segments,
        fact_count=counts.facts,
        entity_count=entities if entities >= 0 else None,
        embedded_count=counts.embedded,
        embeddable_count=counts.embeddable,
        text_search_config=counts.text_search_config,
        time_zone=counts.time_zone,
        newest_event_time=timestamp(counts.newest),
    )


def _tier(tier: IndexTier) -> catalog_pb.IndexTier:
    return catalog_pb.IndexTier(
        kind=str(tier.kind),
        vector_count=tier.rows,
        dead_count=tier.dead,
        approximate=tier.approximate,
        rebuilding=tier.rebuilding,
        failure=tier.failure,
        memory_bytes=tier.memory_bytes,
    )
