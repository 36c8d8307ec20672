"""GetSegments, GetFacts, ListSegments and ListFacts: reads their requests."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from serving.domain.items.records import MAX_NAME_BYTES, TenantName
from serving.domain.questions.query import NO_FILTER, Filter
from serving.rpc.check import MAX_FILTER_VALUES, MAX_ID_BYTES, Checker
from serving.rpc.filters import to_filter
from serving.rpc.items import MAX_ITEMS
from serving.rpc.pages import Page, to_page
from trivium.v1 import catalog_service_pb2 as catalog_pb


def to_ids(
    request: catalog_pb.GetSegmentsRequest | catalog_pb.GetFactsRequest,
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


def to_list_segments_call(request: catalog_pb.ListSegmentsRequest) -> ListCall:
    """Reads a ListSegmentsRequest."""
    with Checker() as check:
        return ListCall(
            tenant=check.tenant(request.tenant),
            page=to_page(check, request),
            filter=to_filter(check, "filter", request.filter),
        )


def to_list_facts_call(request: catalog_pb.ListFactsRequest) -> ListCall:
    """Reads a ListFactsRequest."""
    with Checker() as check:
        return ListCall(
            tenant=check.tenant(request.tenant),
            page=to_page(check, request),
            entities=check.texts("entities", request.entities, MAX_FILTER_VALUES, MAX_NAME_BYTES),
            valid_at=check.optional_instant("valid_at", request),
        )
