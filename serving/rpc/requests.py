"""Requests that write and read back, into domain values, with all their faults named at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from serving.domain.errors import Violation
from serving.domain.query import NO_FILTER, Filter
from serving.domain.records import Fact, ItemId, Segment, TenantName, fact_id, segment_id
from serving.ports import Selector
from serving.rpc.check import MAX_FILTER_VALUES, MAX_ID_BYTES, Checker
from serving.rpc.items import MAX_LABEL_KEY_BYTES, MAX_NAME_BYTES, is_dated, to_item
from trivium.v1 import catalog_service_pb2, filter_pb2, ingest_service_pb2

MAX_ITEMS = 1000
DEFAULT_PAGE_SIZE = 100
MAX_PAGE_SIZE = 1000


def to_filter(check: Checker, path: str, message: filter_pb2.Filter) -> Filter:
    """Reads a filter."""

    def values(name: str) -> tuple[str, ...]:
        return check.texts(
            f"{path}.{name}", getattr(message, name), MAX_FILTER_VALUES, MAX_NAME_BYTES
        )

    if not message.ByteSize():
        return NO_FILTER
    return Filter(
        kinds=values("kinds"),
        labels=_labels(check, f"{path}.labels", message.labels),
        speakers=values("speakers"),
        sessions=values("sessions"),
        entities=values("entities"),
        min_importance=check.number(f"{path}.min_importance", message.min_importance, 0, 1),
        event_time=check.time_range(f"{path}.event_time", message.event_time),
        created_at=check.time_range(f"{path}.created_at", message.created_at),
        updated_at=check.time_range(f"{path}.updated_at", message.updated_at),
    )


def _labels(
    check: Checker, path: str, messages: Sequence[filter_pb2.LabelFilter]
) -> dict[str, tuple[str, ...]]:
    labels: dict[str, tuple[str, ...]] = {}
    if len(messages) > MAX_FILTER_VALUES:
        check.refuse(path, f"must have at most {MAX_FILTER_VALUES} labels, has {len(messages)}")
        return labels
    for place, message in enumerate(messages):
        at = f"{path}[{place}]"
        check.text(f"{at}.key", message.key, MAX_LABEL_KEY_BYTES, required=True)
        if message.key in labels:
            check.refuse(f"{at}.key", f"must be named once, {message.key!r} is named again")
        if not message.values:
            check.refuse(f"{at}.values", "must not be empty")
        labels[message.key] = tuple(message.values[:MAX_FILTER_VALUES])
        if len(message.values) > MAX_FILTER_VALUES:
            check.refuse(f"{at}.values", f"must have at most {MAX_FILTER_VALUES} values")
    return labels


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestCall:
    """A checked IngestRequest: the good items, and what is wrong with the others, by place."""

    tenant: TenantName
    text_search_config: str
    items: list[tuple[int, Segment | Fact]]
    rejected: dict[int, tuple[str, list[Violation]]] = field(default_factory=dict)
    undated: set[ItemId] = field(default_factory=set)
    """Items that came without a time, and so got the server's."""


def to_ingest_call(
    request: ingest_service_pb2.IngestRequest | ingest_service_pb2.IngestStreamRequest,
    now: datetime,
) -> IngestCall:
    """Reads a batch; a malformed item is set apart, a malformed batch refused.

    Raises:
        InvalidRequestError: The batch itself is malformed.
    """
    check = Checker()
    tenant = check.tenant(request.tenant)
    check.text("text_search_config", request.text_search_config, 63)
    if not request.items:
        check.refuse("items", "must not be empty")
    if len(request.items) > MAX_ITEMS:
        check.refuse("items", f"must be at most {MAX_ITEMS}, are {len(request.items)}")
    check.finish()

    call = IngestCall(tenant=tenant, text_search_config=request.text_search_config, items=[])
    for place, message in enumerate(request.items):
        of_item = Checker()
        item = to_item(of_item, f"items[{place}]", message, now)
        if item is None or of_item.violations:
            call.rejected[place] = (item.id if item else "", of_item.violations)
        else:
            call.items.append((place, item))
            if not is_dated(message):
                call.undated.add(item.item)
    return call


def to_selector(request: ingest_service_pb2.ForgetRequest) -> tuple[TenantName, Selector]:
    """Reads a ForgetRequest.

    Raises:
        InvalidRequestError: Fields are malformed.
    """
    check = Checker()
    tenant = check.tenant(request.tenant)
    selector = Selector()
    match request.WhichOneof("selector"):
        case "ids":
            selector = Selector(items=_item_ids(check, request.ids))
        case "session":
            session = check.text("session", request.session, MAX_NAME_BYTES, required=True)
            selector = Selector(session=session)
        case "speaker":
            speaker = check.text("speaker", request.speaker, MAX_NAME_BYTES, required=True)
            selector = Selector(speaker=speaker)
        case "everything":
            if not request.everything:
                check.refuse("everything", "must be true")
            selector = Selector(everything=True)
        case _:
            check.refuse("selector", "must be one of ids, session, speaker, everything")
    check.finish()
    return tenant, selector


def _item_ids(check: Checker, message: ingest_service_pb2.ItemIds) -> tuple[ItemId, ...]:
    segments = check.texts("ids.segment_ids", message.segment_ids, MAX_ITEMS, MAX_ID_BYTES)
    facts = check.texts("ids.fact_ids", message.fact_ids, MAX_ITEMS, MAX_ID_BYTES)
    if not segments and not facts:
        check.refuse("ids", "must name a segment or a fact")
    return (*map(segment_id, segments), *map(fact_id, facts))


def to_ids(request: catalog_service_pb2.GetSegmentsRequest) -> tuple[TenantName, tuple[str, ...]]:
    """Reads a GetSegmentsRequest.

    Raises:
        InvalidRequestError: Fields are malformed.
    """
    check = Checker()
    tenant = check.tenant(request.tenant)
    ids = check.texts("ids", request.ids, MAX_ITEMS, MAX_ID_BYTES)
    if not request.ids:
        check.refuse("ids", "must not be empty")
    check.finish()
    return tenant, ids


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCall:
    """A checked list request: what to list, from where, and how much."""

    tenant: TenantName
    after: str
    size: int
    filter: Filter = NO_FILTER
    entities: tuple[str, ...] = ()
    valid_at: datetime | None = None


def to_segment_page(request: catalog_service_pb2.ListSegmentsRequest) -> PageCall:
    """Reads a ListSegmentsRequest.

    Raises:
        InvalidRequestError: Fields are malformed.
    """
    check = Checker()
    call = PageCall(
        tenant=check.tenant(request.tenant),
        after=_after(check, request.page_token),
        size=_page_size(check, request.page_size),
        filter=to_filter(check, "filter", request.filter),
    )
    check.finish()
    return call


def to_fact_page(request: catalog_service_pb2.ListFactsRequest) -> PageCall:
    """Reads a ListFactsRequest.

    Raises:
        InvalidRequestError: Fields are malformed.
    """
    check = Checker()
    call = PageCall(
        tenant=check.tenant(request.tenant),
        after=_after(check, request.page_token),
        size=_page_size(check, request.page_size),
        entities=check.texts("entities", request.entities, MAX_FILTER_VALUES, MAX_NAME_BYTES),
        valid_at=check.instant("valid_at", request.valid_at)
        if request.HasField("valid_at")
        else None,
    )
    check.finish()
    return call


def to_stats_tenant(request: catalog_service_pb2.GetStatsRequest) -> TenantName:
    """Reads a GetStatsRequest.

    Raises:
        InvalidRequestError: It names no tenant.
    """
    check = Checker()
    tenant = check.tenant(request.tenant)
    check.finish()
    return tenant


_PAGE_TOKEN_PREFIX = "after:"


def page_token(last_id: str) -> str:
    """The token of the page that follows `last_id`."""
    return _PAGE_TOKEN_PREFIX + last_id


def _after(check: Checker, token: str) -> str:
    if token and not token.startswith(_PAGE_TOKEN_PREFIX):
        check.refuse("page_token", "must be the next_page_token of the page before")
    return token.removeprefix(_PAGE_TOKEN_PREFIX)


def _page_size(check: Checker, given: int) -> int:
    if given < 0:
        check.refuse("page_size", f"must not be below 0, is {given}")
    return min(given, MAX_PAGE_SIZE) or DEFAULT_PAGE_SIZE
