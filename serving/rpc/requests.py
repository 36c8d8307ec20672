"""Requests into domain values, with all their faults named at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from serving.domain.briefing import BriefingLimits
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import Violation
from serving.domain.profile import MAX_DEPTH, MAX_LIMIT, MAX_WEIGHT, LegOverride, Profile
from serving.domain.query import NO_FILTER, Filter, Query, Scope
from serving.domain.records import Fact, ItemId, Segment, TenantName, fact_id, segment_id
from serving.ports import Selector
from serving.profiles import DEFAULT_PROFILE
from serving.rpc.check import MAX_FILTER_VALUES, MAX_ID_BYTES, Checker
from serving.rpc.items import MAX_LABEL_KEY_BYTES, MAX_NAME_BYTES, is_dated, to_item
from trivium.v1 import catalog_service_pb2, filter_pb2, ingest_service_pb2, retrieval_service_pb2

MAX_QUERY_BYTES = 8192
DEFAULT_TIME_BUDGET_S = 2.0
MAX_TIME_BUDGET_S = 30.0
MAX_ITEMS = 1000
DEFAULT_PAGE_SIZE = 100
MAX_PAGE_SIZE = 1000


class Coercion(NamedTuple):
    """A value that was not used as given."""

    field: str
    given: str
    used: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieveCall:
    """A checked RetrieveRequest."""

    query: Query
    profile: Profile
    time_budget_s: float
    explain: bool
    briefing: BriefingLimits | None
    coercions: tuple[Coercion, ...] = ()


def to_retrieve_call(
    request: retrieval_service_pb2.RetrieveRequest,
    profiles: Mapping[str, Profile],
    now: datetime,
) -> RetrieveCall:
    """Reads a RetrieveRequest.

    Raises:
        InvalidRequestError: Fields are malformed.
    """
    check = Checker()
    coercions: list[Coercion] = []
    query = Query(
        scope=Scope(
            tenant=check.tenant(request.tenant),
            as_of=check.instant("as_of", request.as_of) if request.HasField("as_of") else now,
            filter=to_filter(check, "filter", request.filter),
        ),
        text=check.text("query", request.query, MAX_QUERY_BYTES, required=not request.vector),
        vector=_vector(check, request.vector),
        token=to_token(check, request.consistency_token),
    )
    profile = _profile(check, request, profiles)
    limit = _limit(check, request.limit, coercions)
    if profile is not None and limit:
        profile = replace(profile, limit=limit)
    time_budget_s = _time_budget(check, request, coercions)
    limits = _briefing(check, request)
    check.finish()
    assert profile is not None, "an unknown profile was refused above; this is a bug"
    return RetrieveCall(
        query=query,
        profile=profile,
        time_budget_s=time_budget_s,
        explain=request.explain,
        briefing=limits,
        coercions=tuple(coercions),
    )


def _vector(check: Checker, values: Sequence[float]) -> tuple[float, ...] | None:
    if not values:
        return None
    vector = tuple(values)
    if not all(math.isfinite(value) for value in vector):
        check.refuse("vector", "must be finite")
    elif not any(vector):
        check.refuse("vector", "must not be zero")
    return vector


def to_token(check: Checker, text: str) -> ConsistencyToken | None:
    """Reads a consistency token; empty is none."""
    if not text:
        return None
    return check.parsed(
        "consistency_token", lambda: ConsistencyToken.parse(text), "a token that a write returned"
    )


def _profile(
    check: Checker,
    request: retrieval_service_pb2.RetrieveRequest,
    profiles: Mapping[str, Profile],
) -> Profile | None:
    profile = profiles.get(request.profile or DEFAULT_PROFILE)
    if profile is None:
        known = ", ".join(sorted(profiles))
        check.refuse("profile", f"must be one of {known}, is {request.profile!r}")
        return None
    names = [leg.name for leg in profile.legs]
    overrides: dict[str, LegOverride] = {}
    for place, message in enumerate(request.leg_overrides):
        path = f"leg_overrides[{place}]"
        if message.leg not in names:
            check.refuse(f"{path}.leg", f"must be one of {', '.join(names)}, is {message.leg!r}")
        elif message.leg in overrides:
            check.refuse(f"{path}.leg", f"must be named once, {message.leg!r} is named again")
        else:
            overrides[message.leg] = _override(check, path, message)
    if check.violations:
        return profile
    return profile.with_overrides(overrides)


def _override(check: Checker, path: str, message: retrieval_service_pb2.LegOverride) -> LegOverride:
    return LegOverride(
        weight=check.number(f"{path}.weight", message.weight, 0, MAX_WEIGHT)
        if message.HasField("weight")
        else None,
        depth=int(check.number(f"{path}.depth", message.depth, 1, MAX_DEPTH))
        if message.HasField("depth")
        else None,
    )


def _limit(check: Checker, given: int, coercions: list[Coercion]) -> int:
    """The limit asked for; 0 leaves it to the profile."""
    if given < 0:
        check.refuse("limit", f"must not be below 0, is {given}")
        return 0
    if given > MAX_LIMIT:
        coercions.append(Coercion("limit", str(given), str(MAX_LIMIT)))
    return min(given, MAX_LIMIT)


def _time_budget(
    check: Checker,
    request: retrieval_service_pb2.RetrieveRequest,
    coercions: list[Coercion],
) -> float:
    if not request.HasField("time_budget"):
        return DEFAULT_TIME_BUDGET_S
    given = check.duration("time_budget", request.time_budget)
    if given > MAX_TIME_BUDGET_S:
        coercions.append(Coercion("time_budget", f"{given:g}s", f"{MAX_TIME_BUDGET_S:g}s"))
    return min(given, MAX_TIME_BUDGET_S)


def _briefing(
    check: Checker, request: retrieval_service_pb2.RetrieveRequest
) -> BriefingLimits | None:
    if not request.HasField("briefing"):
        return None
    given, usual = request.briefing, BriefingLimits()
    return BriefingLimits(
        int(check.number("briefing.max_chars", given.max_chars or usual.max_chars, 200, 100_000)),
        int(
            check.number(
                "briefing.max_line_chars", given.max_line_chars or usual.max_line_chars, 20, 10_000
            )
        ),
    )


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
