"""Builds the request messages; the sync and the async client share it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

from google.protobuf.duration_pb2 import Duration
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from trivium.surrogates import LONE_SURROGATE, has_lone_surrogate
from trivium.v1 import (
    catalog_service_pb2,
    fact_pb2,
    filter_pb2,
    ingest_service_pb2,
    retrieval_service_pb2,
    segment_pb2,
)
from trivium.values import BriefingOptions, Fact, Filter, Item, LegOverride, Segment, TimeRange

BUDGET_SHARE = 0.9
"""The share of a call's timeout that the server may spend; the rest is the way there and back."""

MAX_BATCH_ITEMS = 200
"""Items in one message of a stream: one transaction each, small enough to show progress."""

MAX_BATCH_BYTES = 1 << 20
"""Bytes in one message of a stream, well below gRPC's usual limit of 4 MiB."""

CONTEXT_QUERY = "recent conversations and key facts"
CONTEXT_PROFILE = "annie"
"""Whose legs have no floor: nothing is much like this question, and all of it is wanted."""
CONTEXT_LIMIT = 10
CONTEXT_TIMEOUT_S = 3.0
"""What a bot asks before anybody has spoken, and how long it waits for the answer."""

Progress = Callable[[int], None]
"""Called with the number of items sent so far."""


class RetrieveOptions(TypedDict, total=False):
    """What `retrieve` and `briefing` take beside the question; all of it may be left out.

    Attributes:
        vector: The question as a vector of the service's embedding model, which
            spares embedding it there.
        limit: How many hits to return; 0 means the profile's own, at most 100.
        profile: The name of the ranking profile; empty means "default".
        filter: What to consider, on every leg.
        as_of: The clock of this request, aware: ages and the validity of facts
            count from it, and what was said later is hidden. None means now.
        known_at: What had been recorded, aware: hides what was recorded later, and what
            was only retracted or closed later. None hides nothing.
        token: A token that a write returned: each leg waits, within the timeout,
            until it has seen that write, or is reported as stale.
        explain: Whether to return each hit's ledger.
        overrides: What to change in the profile's legs, by their names.
        changes: What else to change in the profile, in the form of a profile file.
        seeds: Ids of segments that stand for an entity: a walk through the graph
            starts from these, and not from the names in the question.
    """

    vector: Sequence[float]
    limit: int
    profile: str
    filter: Filter | None
    as_of: datetime | None
    known_at: datetime | None
    token: str
    explain: bool
    overrides: Mapping[str, LegOverride]
    changes: Mapping[str, Any]
    seeds: Sequence[str]


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
    token: str = "",
    explain: bool = False,
    overrides: Mapping[str, LegOverride] | None = None,
    changes: Mapping[str, Any] | None = None,
    seeds: Sequence[str] = (),
) -> retrieval_service_pb2.RetrieveRequest:
    """Builds a RetrieveRequest; its `time_budget` is `BUDGET_SHARE` of `timeout` seconds.

    Raises:
        ValueError: The question has half of a surrogate pair, or a time has no zone.
    """
    if has_lone_surrogate(query):
        raise ValueError(f"the question cannot be sent: it {LONE_SURROGATE}")
    return retrieval_service_pb2.RetrieveRequest(
        tenant=tenant,
        query=query,
        vector=vector,
        limit=limit,
        profile=profile,
        leg_overrides=[_leg_override(leg, change) for leg, change in (overrides or {}).items()],
        filter=None if filter is None else _filter(filter),
        as_of=_timestamp(as_of),
        time_budget=_duration(timeout * BUDGET_SHARE),
        consistency_token=token,
        explain=explain,
        briefing=None if briefing is None else _briefing(briefing),
        profile_overrides=_struct(changes),
        seed_ids=seeds,
        known_at=_timestamp(known_at),
    )


def compare(
    question: retrieval_service_pb2.RetrieveRequest,
    against: str,
    against_changes: Mapping[str, Any] | None,
) -> retrieval_service_pb2.CompareRequest:
    """Builds a CompareRequest."""
    return retrieval_service_pb2.CompareRequest(
        retrieve=question, against=against, against_overrides=_struct(against_changes)
    )


def explain_absence(
    question: retrieval_service_pb2.RetrieveRequest, segment_id: str, fact_id: str
) -> retrieval_service_pb2.ExplainAbsenceRequest:
    """Builds an ExplainAbsenceRequest.

    Raises:
        ValueError: Not exactly one of the ids is given.
    """
    if bool(segment_id) == bool(fact_id):
        raise ValueError("give a segment's id or a fact's")
    request = retrieval_service_pb2.ExplainAbsenceRequest(retrieve=question)
    if segment_id:
        request.segment_id = segment_id
    else:
        request.fact_id = fact_id
    return request


def ingest(
    tenant: str, items: Sequence[Item], text_search_config: str = ""
) -> ingest_service_pb2.IngestRequest:
    """Builds an IngestRequest.

    Raises:
        ValueError: An item cannot be written; names it and its field.
    """
    return ingest_service_pb2.IngestRequest(
        tenant=tenant,
        items=[to_message(item) for item in items],
        text_search_config=text_search_config,
    )


class Batcher:
    """Gathers items into the messages of a stream, by count and by size."""

    def __init__(
        self, tenant: str, text_search_config: str = "", progress: Progress | None = None
    ) -> None:
        self._tenant = tenant
        self._text_search_config = text_search_config
        self._progress = progress
        self._sent_count = 0
        self._items: list[ingest_service_pb2.IngestItem] = []
        self._size_bytes = 0

    def add(self, item: Item) -> Iterator[ingest_service_pb2.IngestStreamRequest]:
        """Takes an item; yields the message before it, if that is full."""
        message = to_message(item)
        size_bytes = message.ByteSize()
        full = len(self._items) >= MAX_BATCH_ITEMS
        if full or self._size_bytes + size_bytes > MAX_BATCH_BYTES:
            yield from self.flush()
        self._items.append(message)
        self._size_bytes += size_bytes

    def flush(self) -> Iterator[ingest_service_pb2.IngestStreamRequest]:
        """Yields what is left, if anything is."""
        if not self._items:
            return
        request = ingest_service_pb2.IngestStreamRequest(
            tenant=self._tenant,
            items=self._items,
            text_search_config=self._text_search_config,
        )
        self._sent_count += len(self._items)
        self._items = []
        self._size_bytes = 0
        yield request
        # Asked for the next message, gRPC has taken this one.
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
) -> ingest_service_pb2.ForgetRequest:
    """Builds a ForgetRequest.

    Raises:
        ValueError: Not exactly one of ids, session, speaker and everything is given.
    """
    by_ids = bool(segment_ids or fact_ids)
    if [by_ids, bool(session), bool(speaker), everything].count(True) != 1:
        raise ValueError("name exactly one of ids, session, speaker and everything to forget")
    if by_ids:
        ids = ingest_service_pb2.ItemIds(segment_ids=segment_ids, fact_ids=fact_ids)
        return ingest_service_pb2.ForgetRequest(tenant=tenant, ids=ids)
    if session:
        return ingest_service_pb2.ForgetRequest(tenant=tenant, session=session)
    if speaker:
        return ingest_service_pb2.ForgetRequest(tenant=tenant, speaker=speaker)
    return ingest_service_pb2.ForgetRequest(tenant=tenant, everything=True)


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
        tenant=tenant, entities=entities, valid_at=_timestamp(valid_at), page_size=page_size
    )


def to_message(item: Item) -> ingest_service_pb2.IngestItem:
    """Writes a segment or fact as the item of a write.

    Raises:
        ValueError: A field has half of a surrogate pair, which UTF-8 cannot write, or a time
            has no zone.
    """
    try:
        if isinstance(item, Segment):
            return ingest_service_pb2.IngestItem(segment=_segment(item))
        return ingest_service_pb2.IngestItem(fact=_fact(item))
    except UnicodeEncodeError:
        raise ValueError(_unwritable(item)) from None


def _unwritable(item: Item) -> str:
    """Says which field of an item UTF-8 cannot write."""
    values = {each.name: getattr(item, each.name) for each in dataclasses.fields(item)}
    field = next(name for name, value in values.items() if has_lone_surrogate(value))
    kind = type(item).__name__.lower()
    return f"the {kind} {item.id!r} cannot be sent: {field!r} {LONE_SURROGATE}"


def _segment(segment: Segment) -> segment_pb2.Segment:
    return segment_pb2.Segment(
        id=segment.id,
        text=segment.text,
        title=segment.title,
        kind=segment.kind,
        speaker=segment.speaker,
        session=segment.session,
        event_time=_timestamp(segment.event_time),
        importance=segment.importance,
        sensitive=segment.sensitive,
        labels=segment.labels,
        entities=segment.entities,
        entity=segment.entity,
    )


def _fact(fact: Fact) -> fact_pb2.Fact:
    return fact_pb2.Fact(
        id=fact.id,
        subject=fact.subject,
        relation=fact.relation,
        object=fact.object,
        sentence=fact.sentence,
        valid_from=_timestamp(fact.valid_from),
        valid_to=_timestamp(fact.valid_to),
        recorded_at=_timestamp(fact.recorded_at),
        retracted_at=_timestamp(fact.retracted_at),
        evidence=fact.evidence,
        weight=fact.weight,
        sensitive=fact.sensitive,
        closes=fact.closes,
        single_valued=fact.single_valued,
    )


def _filter(given: Filter) -> filter_pb2.Filter:
    return filter_pb2.Filter(
        kinds=given.kinds,
        labels=[
            filter_pb2.LabelFilter(key=key, values=passing) for key, passing in given.labels.items()
        ],
        speakers=given.speakers,
        sessions=given.sessions,
        entities=given.entities,
        min_importance=given.min_importance,
        event_time=_time_range(given.event_time),
        created_at=_time_range(given.created_at),
        updated_at=_time_range(given.updated_at),
    )


def _time_range(given: TimeRange | None) -> filter_pb2.TimeRange | None:
    if given is None:
        return None
    bounds = {"from": _timestamp(given.start), "to": _timestamp(given.end)}
    return filter_pb2.TimeRange(**bounds)


def _struct(fields: Mapping[str, Any] | None) -> Struct | None:
    return None if fields is None else ParseDict(dict(fields), Struct())


def _leg_override(leg: str, change: LegOverride) -> retrieval_service_pb2.LegOverride:
    return retrieval_service_pb2.LegOverride(leg=leg, weight=change.weight, depth=change.depth)


def _briefing(options: BriefingOptions) -> retrieval_service_pb2.BriefingOptions:
    return retrieval_service_pb2.BriefingOptions(
        max_chars=options.max_chars, max_line_chars=options.max_line_chars
    )


def _timestamp(instant: datetime | None) -> Timestamp | None:
    if instant is None:
        return None
    if instant.utcoffset() is None:
        raise ValueError(
            f"{instant} has no time zone; give one, such as datetime.now(UTC) "
            "or instant.replace(tzinfo=ZoneInfo('Europe/Lisbon'))"
        )
    message = Timestamp()
    message.FromDatetime(instant.astimezone(UTC))
    return message


def _duration(seconds: float) -> Duration:
    message = Duration()
    message.FromTimedelta(timedelta(seconds=seconds))
    return message
