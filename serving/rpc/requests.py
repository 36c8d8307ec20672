"""Converts the requests of IngestService and CatalogService into domain values.

Invalid fields are collected, and then raise one `InvalidRequestError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import NamedTuple, TypeAlias

from serving.domain.errors import Violation
from serving.domain.items.records import Fact, ItemId, Segment, TenantName, fact_id, segment_id
from serving.domain.questions.query import NO_FILTER, Exclusion, Filter
from serving.ports.embedding import EmbeddingModel, Vector
from serving.ports.memory_store import Batch, GivenVectors, Selector
from serving.rpc.check import MAX_FILTER_VALUES, MAX_ID_BYTES, Checker
from serving.rpc.items import (
    MAX_LABEL_KEY_BYTES,
    MAX_NAME_BYTES,
    is_dated,
    to_given_vector,
    to_item,
)
from trivium.v1 import catalog_service_pb2 as catalog_pb
from trivium.v1 import filter_pb2
from trivium.v1 import ingest_service_pb2 as ingest_pb
from trivium.v1 import retrieval_service_pb2 as retrieval_pb

MAX_ITEMS = 1000
DEFAULT_PAGE_SIZE = 100
MAX_PAGE_SIZE = 1000
_APART = timedelta(microseconds=1)
_PAGE_TOKEN_PREFIX = "after:"


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
        none_of=_exclusion(check, f"{path}.none_of", message.none_of),
    )


def _exclusion(check: Checker, path: str, message: filter_pb2.Exclusion) -> Exclusion:
    limits = {"ids": (MAX_ITEMS, MAX_ID_BYTES), "fact_ids": (MAX_ITEMS, MAX_ID_BYTES)}

    def values(name: str) -> tuple[str, ...]:
        most, max_bytes = limits.get(name, (MAX_FILTER_VALUES, MAX_NAME_BYTES))
        return check.texts(f"{path}.{name}", getattr(message, name), most, max_bytes)

    return Exclusion(**{each.name: values(each.name) for each in fields(Exclusion)})


def _labels(
    check: Checker, path: str, messages: Sequence[filter_pb2.LabelFilter]
) -> dict[str, tuple[str, ...]]:
    labels: dict[str, tuple[str, ...]] = {}
    if len(messages) > MAX_FILTER_VALUES:
        check.reject(path, f"must have at most {MAX_FILTER_VALUES} labels, has {len(messages)}")
        return labels
    for place, message in enumerate(messages):
        at = f"{path}[{place}]"
        check.text(f"{at}.key", message.key, MAX_LABEL_KEY_BYTES, required=True)
        if message.key in labels:
            check.reject(f"{at}.key", f"must be named once, {message.key!r} is named again")
        if not message.values:
            check.reject(f"{at}.values", "must not be empty")
        labels[message.key] = check.texts(
            f"{at}.values", message.values, MAX_FILTER_VALUES, MAX_NAME_BYTES, blank=True
        )
    return labels


@dataclass(frozen=True, slots=True)
class IngestCall:
    """A checked IngestRequest: the valid items, and the violations of the others, by place."""

    batch: Batch
    places: list[int]
    """The places of the items of the batch in the request."""
    rejected: dict[int, tuple[ItemId | None, list[Violation]]]


IngestMessage: TypeAlias = ingest_pb.IngestRequest | ingest_pb.IngestStreamRequest


def has_vectors(request: IngestMessage) -> bool:
    """Whether any item comes with a vector."""
    return any(message.segment.HasField("embedding") for message in request.items)


def to_ingest_call(
    request: IngestMessage, now: datetime, model: EmbeddingModel | None = None
) -> IngestCall:
    """Reads a batch; invalid items go to `rejected`."""
    with Checker() as check:
        tenant = check.tenant(request.tenant)
        check.text("text_search_config", request.text_search_config, 63)
        time_zone = check.time_zone("time_zone", request.time_zone)
        if not request.items:
            check.reject("items", "must not be empty")
        if len(request.items) > MAX_ITEMS:
            check.reject("items", f"must be at most {MAX_ITEMS}, are {len(request.items)}")

    items: dict[int, Segment | Fact] = {}
    rejected: dict[int, tuple[ItemId | None, list[Violation]]] = {}
    undated: set[ItemId] = set()
    vectors: dict[ItemId, Vector] = {}
    for place, message in enumerate(request.items):
        of_item = Checker()
        # Items without a time have that of the call, in the order in which they came.
        at = now - (len(request.items) - 1 - place) * _APART
        item = to_item(of_item, f"items[{place}]", message, now, at)
        vector = None
        if model and message.HasField("segment"):
            segment = f"items[{place}].segment"
            vector = to_given_vector(of_item, segment, message.segment, model)
        if item is None or of_item.violations:
            rejected[place] = (item.item if item else None, of_item.violations)
            continue
        items[place] = item
        if not is_dated(message):
            undated.add(item.item)
        # Of items with the same id the last one is stored, and with it its vector or none.
        vectors.pop(item.item, None)
        if vector is not None:
            vectors[item.item] = vector
    batch = Batch(
        tenant,
        list(items.values()),
        request.text_search_config,
        undated=frozenset(undated),
        given=GivenVectors(model, vectors) if model else None,
        time_zone=time_zone,
    )
    return IngestCall(batch, list(items), rejected)


def to_selector(request: ingest_pb.ForgetRequest) -> tuple[TenantName, Selector]:
    """Reads a ForgetRequest."""
    with Checker() as check:
        return check.tenant(request.tenant), _selector(check, request)


def _selector(check: Checker, request: ingest_pb.ForgetRequest) -> Selector:
    match request.WhichOneof("selector"):
        case "ids":
            return Selector(items=_item_ids(check, request.ids))
        case "session" | "speaker" as name:
            given = check.text(name, getattr(request, name), MAX_NAME_BYTES, required=True)
            return Selector(session=given) if name == "session" else Selector(speaker=given)
        case "everything":
            if not request.everything:
                check.reject("everything", "must be true")
            return Selector(everything=True)
        case "filter":
            return Selector(filter=_restricting_filter(check, request.filter))
        case _:
            check.reject("selector", "must be one of ids, session, speaker, everything, filter")
            return Selector()


def _restricting_filter(check: Checker, message: filter_pb2.Filter) -> Filter:
    """Reads the filter of an erasure, which may not select everything by accident."""
    filter_ = to_filter(check, "filter", message)
    ranges = [name for name in ("event_time", "created_at", "updated_at") if message.HasField(name)]
    for name in ranges:
        _require_bounds(check, f"filter.{name}", getattr(message, name))
    if not ranges and not filter_.selects:
        check.reject(
            "filter", "must say what to erase, not only none_of; use everything to erase all items"
        )
    return filter_


def _require_bounds(check: Checker, path: str, message: filter_pb2.TimeRange) -> None:
    bounds = [name for name in ("start", "end") if message.HasField(name)]
    if not bounds:
        check.reject(path, "must have a start or an end")
    for name in bounds:
        # What a client sends whose time was never set; it would be all since 1970.
        if not getattr(message, name).ByteSize():
            check.reject(f"{path}.{name}", "is an empty Timestamp, which is the start of 1970")


def _item_ids(check: Checker, message: ingest_pb.ItemIds) -> tuple[ItemId, ...]:
    segments = check.texts("ids.segment_ids", message.segment_ids, MAX_ITEMS, MAX_ID_BYTES)
    facts = check.texts("ids.fact_ids", message.fact_ids, MAX_ITEMS, MAX_ID_BYTES)
    if not segments and not facts:
        check.reject("ids", "must name a segment or a fact")
    return (*map(segment_id, segments), *map(fact_id, facts))


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


class Page(NamedTuple):
    """The part of a list that a request asks for: at most `size` items after the id `after`."""

    after: str
    size: int

    def next_token(self, ids: Sequence[str]) -> str:
        """The token of the page after the one with `ids`; empty if that is the last one."""
        return _PAGE_TOKEN_PREFIX + ids[-1] if len(ids) == self.size else ""


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
            page=_page(check, request),
            filter=to_filter(check, "filter", request.filter),
        )


def to_list_facts_call(request: catalog_pb.ListFactsRequest) -> ListCall:
    """Reads a ListFactsRequest."""
    with Checker() as check:
        return ListCall(
            tenant=check.tenant(request.tenant),
            page=_page(check, request),
            entities=check.texts("entities", request.entities, MAX_FILTER_VALUES, MAX_NAME_BYTES),
            valid_at=check.optional_instant("valid_at", request),
        )


def to_stats_tenant(request: catalog_pb.GetStatsRequest) -> TenantName:
    """Reads a GetStatsRequest."""
    with Checker() as check:
        return check.tenant(request.tenant)


def to_profile_page(request: retrieval_pb.ListProfilesRequest) -> Page:
    """Reads a ListProfilesRequest."""
    with Checker() as check:
        return _page(check, request)


def _page(
    check: Checker,
    request: catalog_pb.ListSegmentsRequest
    | catalog_pb.ListFactsRequest
    | retrieval_pb.ListProfilesRequest,
) -> Page:
    token, size = request.page_token, request.page_size
    if token and not token.startswith(_PAGE_TOKEN_PREFIX):
        check.reject("page_token", "must be the next_page_token of the previous page")
    check.text("page_token", token, len(_PAGE_TOKEN_PREFIX) + MAX_ID_BYTES)
    if size < 0:
        check.reject("page_size", f"must not be below 0, is {size}")
    return Page(
        token.removeprefix(_PAGE_TOKEN_PREFIX), min(size, MAX_PAGE_SIZE) or DEFAULT_PAGE_SIZE
    )
