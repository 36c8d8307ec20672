"""Converts domain values into the responses of IngestService and CatalogService."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import get_args

from serving.domain.errors import Violation
from serving.domain.items.records import ItemId
from serving.pipeline.writes.forget import Forgotten, LookupKey
from serving.pipeline.writes.ingest import Ingested
from serving.pipeline.writes.stats import Overview
from serving.ports.memory_store import Outcome, Selected, TenantCounts
from serving.ports.vector_index import IndexTier
from serving.rpc.items import duration, from_reference, timestamp
from serving.rpc.requests import IngestCall
from trivium.v1 import catalog_service_pb2 as catalog_pb
from trivium.v1 import ingest_service_pb2 as ingest_pb

MAX_SPEAKERS_LISTED = 100

_ITEM_STATES = {
    outcome: getattr(ingest_pb, f"ITEM_STATE_{outcome.upper()}") for outcome in get_args(Outcome)
}
_LOOKUP_KEYS = {key: getattr(ingest_pb, f"LOOKUP_KEY_{key.name}") for key in LookupKey}


def from_ingested(call: IngestCall, ingested: Ingested | None) -> ingest_pb.IngestResponse:
    """Writes the outcomes of a batch; `ingested` is None if every item was rejected."""
    outcomes = {
        place: rejected_outcome(place, rejected, violations)
        for place, (rejected, violations) in call.rejected.items()
    }
    if ingested is not None:
        written = zip(call.places, call.batch.items, ingested.outcomes, strict=True)
        for place, item, outcome in written:
            outcomes[place] = ingest_pb.ItemOutcome(
                index=place, item=from_reference(item.item), state=_ITEM_STATES[outcome]
            )
    return ingest_pb.IngestResponse(
        outcomes=[outcome for _, outcome in sorted(outcomes.items())],
        consistency_token=str(ingested.token) if ingested is not None else "",
    )


def rejected_outcome(
    place: int, item: ItemId | None, violations: Sequence[Violation]
) -> ingest_pb.ItemOutcome:
    """Writes why an item was rejected."""
    return ingest_pb.ItemOutcome(
        index=place,
        item=from_reference(item) if item is not None else None,
        state=ingest_pb.ITEM_STATE_REJECTED,
        violations=[
            ingest_pb.ItemViolation(field=field, description=description)
            for field, description in violations
        ],
    )


def from_forgotten(forgotten: Forgotten) -> ingest_pb.ForgetResponse:
    """Writes the result of an erasure."""
    return ingest_pb.ForgetResponse(
        segment_count=forgotten.segments,
        fact_count=forgotten.facts,
        receipts=[
            ingest_pb.StoreReceipt(
                store=receipt.store,
                verified=receipt.verified,
                remaining_count=receipt.remaining,
                reason=receipt.reason,
                removed_count=receipt.removed,
                lookups=[
                    ingest_pb.Lookup(
                        key=_LOOKUP_KEYS[lookup.key],
                        asked_count=lookup.asked,
                        found_count=lookup.found,
                    )
                    for lookup in receipt.lookups
                ],
            )
            for receipt in forgotten.receipts
        ],
        consistency_token=str(forgotten.token),
    )


def from_selected(selected: Selected) -> ingest_pb.ForgetResponse:
    """Writes what an erasure would erase."""
    speakers = Counter(selected.segments_by_speaker)
    return ingest_pb.ForgetResponse(
        segment_count=speakers.total(),
        fact_count=selected.facts,
        speakers=[
            ingest_pb.SpeakerCount(speaker=speaker, segment_count=count)
            for speaker, count in speakers.most_common(MAX_SPEAKERS_LISTED)
        ],
    )


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
