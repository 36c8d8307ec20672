"""The RPCs of CatalogService: each reads its request, calls the stores and writes the response."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime

from serving.domain.budget import Deadline
from serving.domain.changes import ChangesPosition
from serving.domain.consistency import ConsistencyToken
from serving.domain.items.records import (
    MAX_NAME_BYTES,
    Fact,
    Item,
    ItemId,
    Segment,
    TenantName,
    fact_id,
    is_expired,
    segment_id,
)
from serving.domain.questions.query import NO_FILTER, Filter
from serving.pipeline.writes.stats import Overview
from serving.ports.memory_store import TenantCounts
from serving.rpc.boundary import rpc, streaming_rpc
from serving.rpc.check import MAX_FILTER_VALUES, MAX_ID_BYTES, Checker
from serving.rpc.filters import to_filter
from serving.rpc.items import (
    MAX_ITEMS,
    duration,
    from_fact,
    from_reference,
    from_segment,
    timestamp,
)
from serving.rpc.pages import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE, Page, to_page
from serving.rpc.use_cases import Rpcs
from trivium.v1 import catalog_service_pb2 as pb

READ_BUDGET_S = 5.0
MAX_TOKEN_BYTES = 16 * 1024
"""Of a position, which names the transactions that were in progress."""


class CatalogService(Rpcs):
    """Items by id and in pages, their changes, and the state of the service."""

    @rpc
    async def GetSegments(self, request: pb.GetSegmentsRequest) -> pb.GetSegmentsResponse:
        """Reads segments by id."""
        rows, missing = await self._load(request, segment_id)
        segments = [from_segment(row) for row in rows if isinstance(row, Segment)]
        return pb.GetSegmentsResponse(segments=segments, missing_ids=missing)

    @rpc
    async def GetFacts(self, request: pb.GetFactsRequest) -> pb.GetFactsResponse:
        """Reads facts by id."""
        rows, missing = await self._load(request, fact_id)
        facts = [from_fact(row) for row in rows if isinstance(row, Fact)]
        return pb.GetFactsResponse(facts=facts, missing_ids=missing)

    async def _load(
        self,
        request: pb.GetSegmentsRequest | pb.GetFactsRequest,
        item_of: Callable[[str], ItemId],
    ) -> tuple[list[Item], list[str]]:
        """Returns the items that are stored and have not expired, and the ids of the others."""
        tenant, ids = to_ids(request)
        items = [item_of(id_) for id_ in ids]
        loaded = await self.use_cases.store.load(tenant, items, Deadline.after(READ_BUDGET_S))
        now = self._now()
        rows = {item: row for item, row in loaded.items() if not is_expired(row, now)}
        stored = [rows[item] for item in items if item in rows]
        return stored, [item.id for item in items if item not in rows]

    @rpc
    async def ListSegments(self, request: pb.ListSegmentsRequest) -> pb.ListSegmentsResponse:
        """Lists segments in pages."""
        call = to_list_segments_call(request)
        rows = await self.use_cases.catalog.list_segments(call.tenant, call.filter, *call.page)
        return pb.ListSegmentsResponse(
            segments=map(from_segment, rows),
            next_page_token=call.page.next_token([row.id for row in rows]),
        )

    @rpc
    async def ListFacts(self, request: pb.ListFactsRequest) -> pb.ListFactsResponse:
        """Lists facts in pages."""
        call = to_list_facts_call(request)
        rows = await self.use_cases.catalog.list_facts(
            call.tenant, call.entities, call.valid_at, *call.page
        )
        return pb.ListFactsResponse(
            facts=map(from_fact, rows),
            next_page_token=call.page.next_token([row.id for row in rows]),
        )

    @streaming_rpc
    async def WatchChanges(
        self, request: pb.WatchChangesRequest
    ) -> AsyncGenerator[pb.WatchChangesResponse, None]:
        """Streams which items of a tenant change."""
        call = to_watch_call(request)
        watched = self.use_cases.watcher.watch(call.tenant, call.after, call.batch_size)
        async with aclosing(watched):
            async for read in watched:
                changes = [
                    pb.ItemChange(
                        item=from_reference(each.item),
                        change=pb.CHANGE_KIND_ERASED if each.erased else pb.CHANGE_KIND_STORED,
                        token=str(each.after),
                    )
                    for each in read.changes
                ]
                yield pb.WatchChangesResponse(changes=changes, token=str(read.position))

    @rpc
    async def GetStats(self, request: pb.GetStatsRequest) -> pb.GetStatsResponse:
        """Reports the state of the service."""
        tenant = to_stats_tenant(request)
        overview = await self.use_cases.observer.overview(tenant)
        if self.rejected_profiles:
            overview.degraded.append(f"profiles: {self.rejected_profiles}")
        return from_overview(overview, self._recent_legs.activities())


def to_ids(
    request: pb.GetSegmentsRequest | pb.GetFactsRequest,
) -> tuple[TenantName, tuple[str, ...]]:
    """Reads a GetSegmentsRequest or a GetFactsRequest."""
    with Checker() as check:
        tenant = check.tenant(request.tenant)
        ids = check.texts("ids", request.ids, MAX_ITEMS, MAX_ID_BYTES)
        if not request.ids:
            check.reject("ids", "must not be empty")
    return tenant, ids


@dataclass(frozen=True, slots=True, kw_only=True)
class ListCall:
    """A checked request to list segments or facts."""

    tenant: TenantName
    page: Page
    filter: Filter = NO_FILTER
    entities: tuple[str, ...] = ()
    valid_at: datetime | None = None


def to_list_segments_call(request: pb.ListSegmentsRequest) -> ListCall:
    """Reads a ListSegmentsRequest."""
    with Checker() as check:
        return ListCall(
            tenant=check.tenant(request.tenant),
            page=to_page(check, request),
            filter=to_filter(check, "filter", request.filter),
        )


def to_list_facts_call(request: pb.ListFactsRequest) -> ListCall:
    """Reads a ListFactsRequest."""
    with Checker() as check:
        return ListCall(
            tenant=check.tenant(request.tenant),
            page=to_page(check, request),
            entities=check.texts("entities", request.entities, MAX_FILTER_VALUES, MAX_NAME_BYTES),
            valid_at=check.optional_instant("valid_at", request),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchCall:
    """A checked WatchChangesRequest; `after` is None for what changes from now on."""

    tenant: TenantName
    after: ConsistencyToken | ChangesPosition | None
    batch_size: int


def to_watch_call(request: pb.WatchChangesRequest) -> WatchCall:
    """Reads a WatchChangesRequest."""
    with Checker() as check:
        if request.batch_size < 0:
            check.reject("batch_size", f"must not be below 0, is {request.batch_size}")
        return WatchCall(
            tenant=check.tenant(request.tenant),
            after=_after(check, request.after_token),
            batch_size=min(request.batch_size, MAX_PAGE_SIZE) or DEFAULT_PAGE_SIZE,
        )


def _after(check: Checker, token: str) -> ConsistencyToken | ChangesPosition | None:
    if not token:
        return None
    if (size := len(token.encode())) > MAX_TOKEN_BYTES:
        check.reject("after_token", f"must be at most {MAX_TOKEN_BYTES} bytes, has {size}")
        return None
    for parse in (ChangesPosition.parse, ConsistencyToken.parse):
        try:
            return parse(token)
        except ValueError:
            continue
    check.reject("after_token", "must be a token of WatchChanges, or one that a write returned")
    return None


def to_stats_tenant(request: pb.GetStatsRequest) -> TenantName:
    """Reads a GetStatsRequest."""
    with Checker() as check:
        return check.tenant(request.tenant)


def from_overview(overview: Overview, legs: Sequence[pb.LegStats] = ()) -> pb.GetStatsResponse:
    """Writes the state of the service, and how the legs of this replica have answered lately."""
    return pb.GetStatsResponse(
        tenant=_tenant_stats(overview.tenant, overview.entities) if overview.tenant else None,
        projections=[
            pb.ProjectionStats(
                projection=status.projection,
                pending_count=status.pending,
                lag=duration(status.lag_s),
                dead_letter_count=status.dead_letter_count,
            )
            for status in overview.projections
        ],
        index=pb.IndexStats(
            ready=overview.index.ready,
            vector_count=overview.index.vector_count,
            epoch=overview.index.epoch,
            reason=overview.index.reason,
            tiers=[
                pb.IndexTier(
                    kind=str(tier.kind),
                    vector_count=tier.rows,
                    dead_count=tier.dead,
                    approximate=tier.approximate,
                    rebuilding=tier.rebuilding,
                    failure=tier.failure,
                    memory_bytes=tier.memory_bytes,
                )
                for tier in overview.index.tiers
            ],
        ),
        service=pb.ServiceStats(
            version=overview.about.version,
            placement=overview.about.placement,
            ingress=overview.about.ingress,
            model_fingerprint=overview.model.fingerprint if overview.model else "",
            dimension=overview.model.dimension if overview.model else 0,
            started_at=timestamp(overview.about.started_at),
            degraded=overview.degraded,
        ),
        dead_letters=[
            pb.DeadLetter(
                projection=row.projection,
                item=from_reference(row.item),
                reason=row.reason,
                dead_lettered_at=timestamp(row.at),
            )
            for row in overview.dead_letters
        ],
        legs=legs,
    )


def _tenant_stats(counts: TenantCounts, entities: int) -> pb.TenantStats:
    return pb.TenantStats(
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
