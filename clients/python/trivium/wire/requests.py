"""Builds the request messages, for both clients."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, TypedDict
from uuid import uuid4
from zoneinfo import ZoneInfo

from google.protobuf.duration_pb2 import Duration
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from trivium.admin import Role
from trivium.v1 import (
    admin_service_pb2,
    catalog_service_pb2,
    fact_pb2,
    filter_pb2,
    ingest_service_pb2,
    item_pb2,
    retrieval_service_pb2,
    segment_pb2,
)
from trivium.values import (
    BriefingOptions,
    Embedding,
    Exclusion,
    Fact,
    Filter,
    Item,
    LabelCondition,
    LegOverride,
    NumberRange,
    Segment,
    TimeRange,
)
from trivium.wire.surrogates import LONE_SURROGATE, has_lone_surrogate

BUDGET_SHARE = 0.9
"""The share of a call's timeout that the server may take; the rest is for the network."""

MAX_BATCH_ITEMS = 200
"""Items per message of a stream. Each message is one transaction."""

MAX_BATCH_BYTES = 1 << 20
"""Bytes per message of a stream, well below gRPC's default limit of 4 MiB."""

OPENING_PROFILE = "opening"
"""The profile of the start of a conversation, when nothing was asked yet."""

OPENING_LIMIT = 10
OPENING_TIMEOUT_S = 3.0

Progress = Callable[[int], None]
"""Called with the number of items sent so far."""


class RetrieveOptions(TypedDict, total=False):
    """The options of `retrieve` and `briefing`, all with a default.

    Attributes:
        vector: The query as a vector of the service's embedding model, which the
            server then does not compute.
        limit: How many hits to return; 0 means the profile's own, at most 100.
        profile: The name of the ranking profile; empty means "default".
        filter: The items to consider, on every leg.
        as_of: The reference time of the request, timezone-aware: ages and the validity
            of facts are relative to it, and later segments are hidden. None means now.
        known_at: Hides what was recorded later, and ignores later retractions and
            closings; timezone-aware. None hides nothing.
        consistency_token: The token that a write returned: each leg waits, within the
            timeout, until it has applied that write, or is reported as stale.
        explain: Whether to return the ledger of each hit.
        leg_overrides: Changes to legs of the profile, by leg name; each a `LegOverride` or a
            mapping of its fields.
        profile_overrides: Changes to the profile, in the form of a profile file.
        seed_ids: Ids of segments that represent an entity: the graph walk starts from
            these entities instead of the names in the query.
        required_legs: Legs that the answer must not lack: if one of them is not OK, the call
            raises UnavailableError with the reason REQUIRED_LEG_MISSING.
        time_zone: Where the caller is: the days that the query names are days there. An IANA
            name, such as "Europe/Lisbon", or an offset, such as "-08:00". Empty means the zone of
            `as_of`, unless that is UTC; else the client's `time_zone`; else the tenant's.
        tenants: The tenants to ask together in place of the client's own, at most 8, with the
            weights of their scores if it is a mapping. `Hit.tenant` says whose each hit is.
    """

    vector: Sequence[float]
    limit: int
    profile: str
    filter: Filter | None
    as_of: datetime | None
    known_at: datetime | None
    consistency_token: str
    explain: bool
    leg_overrides: Mapping[str, LegOverride | Mapping[str, Any]]
    profile_overrides: Mapping[str, Any]
    seed_ids: Sequence[str]
    required_legs: Sequence[str]
    time_zone: str
    tenants: Sequence[str] | Mapping[str, float]


def retrieve(
    tenant: str,
    query: str,
    *,
    timeout: float,
    briefing: BriefingOptions | None = None,
    vector: Sequence[float] = (),
    limit: int = 0,
    profile: str = "",
    filter: Filter | None = None,
    as_of: datetime | None = None,
    known_at: datetime | None = None,
    consistency_token: str = "",
    explain: bool = False,
    leg_overrides: Mapping[str, LegOverride | Mapping[str, Any]] | None = None,
    profile_overrides: Mapping[str, Any] | None = None,
    seed_ids: Sequence[str] = (),
    required_legs: Sequence[str] = (),
    time_zone: str = "",
    tenants: Sequence[str] | Mapping[str, float] = (),
) -> retrieval_service_pb2.RetrieveRequest:
    """Builds a RetrieveRequest; its `time_budget` is `BUDGET_SHARE` of `timeout` seconds.

    Raises:
        ValueError: The query has a lone surrogate, a time has no time zone, or an override of a
            leg has an unknown field.
        TypeError: One text is given for a list of them.
    """
    if has_lone_surrogate(query):
        raise ValueError(f"the query cannot be sent: it {LONE_SURROGATE}")
    return retrieval_service_pb2.RetrieveRequest(
        tenant="" if tenants else tenant,
        query=query,
        vector=vector,
        limit=limit,
        profile=profile,
        leg_overrides=[_leg_override(leg, change) for leg, change in (leg_overrides or {}).items()],
        filter=None if filter is None else _filter(filter),
        as_of=timestamp(as_of),
        time_budget=budget(timeout),
        consistency_token=consistency_token,
        explain=explain,
        briefing=None if briefing is None else _briefing(briefing),
        profile_overrides=_struct(profile_overrides),
        seed_ids=texts("seed_ids", seed_ids),
        required_legs=texts("required_legs", required_legs),
        known_at=timestamp(known_at),
        time_zone=time_zone,
        tenants=[
            retrieval_service_pb2.TenantWeight(
                tenant=name, weight=tenants[name] if isinstance(tenants, Mapping) else None
            )
            for name in texts("tenants", tenants)
        ],
    )


def texts(name: str, values: Iterable[str]) -> Iterable[str]:
    """The values of the list `name`, of which protobuf takes one text for its letters.

    Raises:
        TypeError: They are one text.
    """
    if isinstance(values, str):
        raise TypeError(f"{name} must be a list, such as [{values!r}], is {values!r}")
    return values


def time_zone_of(instant: datetime | None) -> str:
    """The name of the zone that an instant is given in, or its offset; empty for UTC and None."""
    if not isinstance(instant, datetime) or instant.utcoffset() is None or instant.tzinfo is UTC:
        return ""
    offset = f"{instant:%z}"
    name = getattr(instant.tzinfo, "key", None) or f"{offset[:3]}:{offset[3:5]}"
    return "" if name in ("UTC", "+00:00") else name


def zone_of(name: str) -> tzinfo:
    """The zone of an IANA name, or of an offset such as "-08:00"; UTC for none.

    Raises:
        ValueError: There is no such zone.
    """
    try:
        if name[:1] in ("+", "-"):
            return datetime.strptime(name, "%z").tzinfo or UTC
        return ZoneInfo(name) if name else UTC
    except (ValueError, KeyError, OSError) as error:  # `ZoneInfo` raises each for some names
        raise ValueError(f"{name!r} is no time zone, such as Europe/Lisbon") from error


def compare(
    query: retrieval_service_pb2.RetrieveRequest,
    against: str,
    against_overrides: Mapping[str, Any] | None,
) -> retrieval_service_pb2.CompareRequest:
    """Builds a CompareRequest."""
    return retrieval_service_pb2.CompareRequest(
        retrieve=query, against=against, against_overrides=_struct(against_overrides)
    )


def item_ref(segment_id: str, fact_id: str) -> item_pb2.ItemRef:
    """Refers to a segment or a fact.

    Raises:
        ValueError: Not exactly one of the ids is given.
    """
    if bool(segment_id) == bool(fact_id):
        raise ValueError("exactly one of segment_id and fact_id is required")
    return (
        item_pb2.ItemRef(segment_id=segment_id) if segment_id else item_pb2.ItemRef(fact_id=fact_id)
    )


def ingest(
    tenant: str, items: Sequence[Item], text_search_config: str = "", time_zone: str = ""
) -> ingest_service_pb2.IngestRequest:
    """Builds an IngestRequest; sent again by the channel, it gives the same ids.

    Raises:
        ValueError: An item cannot be encoded; the message has its id and field.
    """
    return ingest_service_pb2.IngestRequest(
        tenant=tenant,
        items=[to_message(item) for item in items],
        text_search_config=text_search_config,
        time_zone=time_zone,
        idempotency_key="" if all(item.id for item in items) else uuid4().hex,
    )


class Batcher:
    """Groups items into the messages of a stream, by count and size."""

    def __init__(
        self,
        tenant: str,
        text_search_config: str = "",
        progress: Progress | None = None,
        time_zone: str = "",
    ) -> None:
        self._tenant = tenant
        self._text_search_config = text_search_config
        self._time_zone = time_zone
        self._progress = progress
        self._sent_count = 0
        self._items: list[ingest_service_pb2.IngestItem] = []
        self._size_bytes = 0

    def add(self, item: Item) -> Iterator[ingest_service_pb2.IngestStreamRequest]:
        """Adds an item; yields the previous message if it is full."""
        message = to_message(item)
        size_bytes = message.ByteSize()
        full = len(self._items) >= MAX_BATCH_ITEMS
        if full or self._size_bytes + size_bytes > MAX_BATCH_BYTES:
            yield from self.flush()
        self._items.append(message)
        self._size_bytes += size_bytes

    def flush(self) -> Iterator[ingest_service_pb2.IngestStreamRequest]:
        """Yields the remaining items, if any."""
        if not self._items:
            return
        request = ingest_service_pb2.IngestStreamRequest(
            tenant=self._tenant,
            items=self._items,
            text_search_config=self._text_search_config,
            time_zone=self._time_zone,
        )
        self._sent_count += len(self._items)
        self._items = []
        self._size_bytes = 0
        yield request
        # gRPC has taken this message when it asks for the next one.
        if self._progress is not None:
            self._progress(self._sent_count)


def forget(
    tenant: str,
    *,
    segment_ids: Sequence[str] = (),
    fact_ids: Sequence[str] = (),
    session: str = "",
    speaker: str = "",
    everything: bool = False,
    filter_: Filter | None = None,
    dry_run: bool = False,
) -> ingest_service_pb2.ForgetRequest:
    """Builds a ForgetRequest.

    Raises:
        ValueError: Not exactly one of ids, session, speaker, filter and everything is given.
    """
    by_ids = bool(segment_ids or fact_ids)
    given = [by_ids, bool(session), bool(speaker), everything, filter_ is not None]
    if given.count(True) != 1:
        raise ValueError("exactly one of ids, session, speaker, filter and everything is required")
    ids = ingest_service_pb2.ItemIds(
        segment_ids=texts("segment_ids", segment_ids), fact_ids=texts("fact_ids", fact_ids)
    )
    request = ingest_service_pb2.ForgetRequest(
        tenant=tenant,
        ids=ids if by_ids else None,
        session=session or None,
        speaker=speaker or None,
        filter=None if filter_ is None else _filter(filter_),
        dry_run=dry_run,
    )
    if everything:
        request.everything = True
    return request


def list_segments(
    tenant: str, filter_: Filter | None, page_size: int
) -> catalog_service_pb2.ListSegmentsRequest:
    """Builds the request for the first page of segments."""
    return catalog_service_pb2.ListSegmentsRequest(
        tenant=tenant,
        filter=None if filter_ is None else _filter(filter_),
        page_size=page_size,
    )


def list_facts(
    tenant: str, entities: Sequence[str], valid_at: datetime | None, page_size: int
) -> catalog_service_pb2.ListFactsRequest:
    """Builds the request for the first page of facts."""
    return catalog_service_pb2.ListFactsRequest(
        tenant=tenant,
        entities=texts("entities", entities),
        valid_at=timestamp(valid_at),
        page_size=page_size,
    )


def create_key(
    roles: Iterable[Role], tenant: str, all_tenants: bool, note: str, expires_at: datetime | None
) -> admin_service_pb2.CreateKeyRequest:
    """Builds the request for an API key."""
    return admin_service_pb2.CreateKeyRequest(
        roles=[getattr(admin_service_pb2, f"ROLE_{Role(role).name}") for role in roles],
        tenant=tenant,
        all_tenants=all_tenants,
        note=note,
        expires_at=timestamp(expires_at),
    )


def to_message(item: Item) -> ingest_service_pb2.IngestItem:
    """Writes a segment or fact.

    Raises:
        ValueError: A field has a lone surrogate, or a time has no time zone.
        TypeError: A field has a value of another type, such as the label 3.
    """
    try:
        if isinstance(item, Segment):
            return ingest_service_pb2.IngestItem(segment=_segment(item))
        return ingest_service_pb2.IngestItem(fact=_fact(item))
    except UnicodeEncodeError:
        raise ValueError(_unwritable(item)) from None
    except TypeError as error:
        raise TypeError(_mistyped(item, error)) from None


def _unwritable(item: Item) -> str:
    """The error message for an item that cannot be encoded in UTF-8."""
    values = {each.name: getattr(item, each.name) for each in dataclasses.fields(item)}
    field = next(name for name, value in values.items() if has_lone_surrogate(value))
    kind = type(item).__name__.lower()
    return f"the {kind} {item.id!r} cannot be sent: {field!r} {LONE_SURROGATE}"


def _mistyped(item: Item, error: TypeError) -> str:
    """The error message for an item with a value of another type; protobuf's names no field."""
    what = str(error)
    for each in dataclasses.fields(item):
        value = getattr(item, each.name)
        expected: tuple[type, str] = str, "string"
        match each.type:
            case "str":
                given = [value]
            case "Sequence[str]":
                given = value
            case "Mapping[str, str]":
                given = [*value, *value.values()]
            case "datetime | None":
                given, expected = [] if value is None else [value], (datetime, "datetime")
            case _:
                continue
        if wrong := [one for one in given if not isinstance(one, expected[0])]:
            what = f"{each.name!r} has {wrong[0]!r}, which is no {expected[1]}"
            break
    return f"the {type(item).__name__.lower()} {item.id!r} cannot be sent: {what}"


def _segment(segment: Segment) -> segment_pb2.Segment:
    return segment_pb2.Segment(
        id=segment.id,
        text=segment.text,
        title=segment.title,
        kind=segment.kind,
        speaker=segment.speaker,
        session=segment.session,
        event_time=timestamp(segment.event_time),
        importance=segment.importance,
        sensitive=segment.sensitive,
        labels=segment.labels,
        entities=texts("entities", segment.entities),
        entity=segment.entity,
        keywords=texts("keywords", segment.keywords),
        embedding=None if segment.embedding is None else _embedding(segment.embedding),
        created_at=timestamp(segment.created_at),
        expires_at=timestamp(segment.expires_at),
    )


def _embedding(embedding: Embedding) -> segment_pb2.Embedding:
    return segment_pb2.Embedding(
        model_fingerprint=embedding.model_fingerprint, values=embedding.values
    )


def _fact(fact: Fact) -> fact_pb2.Fact:
    return fact_pb2.Fact(
        id=fact.id,
        subject=fact.subject,
        relation=fact.relation,
        object=fact.object,
        sentence=fact.sentence,
        valid_from=timestamp(fact.valid_from),
        valid_to=timestamp(fact.valid_to),
        recorded_at=timestamp(fact.recorded_at),
        retracted_at=timestamp(fact.retracted_at),
        evidence=texts("evidence", fact.evidence),
        weight=fact.weight,
        sensitive=fact.sensitive,
        closes=texts("closes", fact.closes),
        single_valued=fact.single_valued,
        expires_at=timestamp(fact.expires_at),
    )


def _filter(given: Filter) -> filter_pb2.Filter:
    return filter_pb2.Filter(
        kinds=texts("kinds", given.kinds),
        labels=[_label(key, wanted) for key, wanted in given.labels.items()],
        speakers=texts("speakers", given.speakers),
        sessions=texts("sessions", given.sessions),
        entities=texts("entities", given.entities),
        min_importance=given.min_importance,
        event_time=_time_range(given.event_time),
        created_at=_time_range(given.created_at),
        updated_at=_time_range(given.updated_at),
        none_of=_exclusion(given.none_of),
        all_of=map(_filter, given.all_of),
        any_of=map(_filter, given.any_of),
    )


def _label(key: str, wanted: LabelCondition) -> filter_pb2.LabelFilter:
    match wanted:
        case NumberRange():
            number = filter_pb2.NumberRange(min=wanted.min, max=wanted.max)
            return filter_pb2.LabelFilter(key=key, number=number)
        case TimeRange():
            return filter_pb2.LabelFilter(key=key, date=_time_range(wanted))
        case bool():
            return filter_pb2.LabelFilter(key=key, exists=wanted)
        case values:
            return filter_pb2.LabelFilter(key=key, values=texts(f"labels[{key!r}]", values))


def _exclusion(given: Exclusion) -> filter_pb2.Exclusion | None:
    if given == Exclusion():
        return None
    return filter_pb2.Exclusion(
        kinds=texts("kinds", given.kinds),
        speakers=texts("speakers", given.speakers),
        sessions=texts("sessions", given.sessions),
        ids=texts("ids", given.ids),
        fact_ids=texts("fact_ids", given.fact_ids),
        filters=map(_filter, given.filters),
    )


def _time_range(given: TimeRange | None) -> filter_pb2.TimeRange | None:
    if given is None:
        return None
    return filter_pb2.TimeRange(start=timestamp(given.start), end=timestamp(given.end))


def _struct(fields: Mapping[str, Any] | None) -> Struct | None:
    return None if fields is None else ParseDict(dict(fields), Struct())


def _leg_override(
    leg: str, change: LegOverride | Mapping[str, Any]
) -> retrieval_service_pb2.LegOverride:
    if not isinstance(change, LegOverride):
        try:
            change = LegOverride(**change)
        except TypeError:
            fields = ", ".join(each.name for each in dataclasses.fields(LegOverride))
            raise ValueError(
                f"leg_overrides[{leg!r}] must have only {fields}; is {change!r}. "
                "Other fields are in profile_overrides"
            ) from None
    return retrieval_service_pb2.LegOverride(leg=leg, weight=change.weight, depth=change.depth)


def _briefing(options: BriefingOptions) -> retrieval_service_pb2.BriefingOptions:
    return retrieval_service_pb2.BriefingOptions(
        max_chars=options.max_chars,
        max_line_chars=options.max_line_chars,
        without_days=options.without_days,
    )


def timestamp(instant: datetime | None) -> Timestamp | None:
    """Writes a time; None is not sent.

    Raises:
        TypeError: It is none.
        ValueError: It has no time zone.
    """
    if instant is None:
        return None
    if not isinstance(instant, datetime):
        raise TypeError(f"{instant!r} is no datetime, such as datetime.now(UTC)")
    if instant.utcoffset() is None:
        raise ValueError(
            f"{instant} has no time zone; use for example datetime.now(UTC) "
            "or instant.replace(tzinfo=ZoneInfo('Europe/Lisbon'))"
        )
    message = Timestamp()
    message.FromDatetime(instant.astimezone(UTC))
    return message


def finite(timeout: float) -> float:
    """Returns a timeout in seconds.

    Raises:
        ValueError: It is infinite or no number.
    """
    if not math.isfinite(timeout):
        raise ValueError(f"timeout must be a finite number of seconds, not {timeout}")
    return timeout


def budget(timeout: float) -> Duration:
    """The time budget of a call with this timeout in seconds."""
    message = Duration()
    message.FromTimedelta(timedelta(seconds=timeout * BUDGET_SHARE))
    return message
