"""Converts segments, facts and references between protobuf and the domain."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import numpy as np
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from serving.domain.items.records import (
    DEFAULT_IMPORTANCE,
    DEFAULT_KIND,
    MAX_ENTITIES,
    MAX_LABELS,
    MAX_NAME_BYTES,
    MAX_OBJECT_BYTES,
    MAX_SENTENCE_BYTES,
    Fact,
    ItemId,
    ItemKind,
    Segment,
    fact_id,
    segment_id,
)
from serving.ports.embedding import EmbeddingModel, Vector
from serving.rpc.check import MAX_ID_BYTES, Checker
from trivium.v1 import fact_pb2, filter_pb2, item_pb2, segment_pb2
from trivium.v1 import ingest_service_pb2 as ingest_pb

NANOSECONDS = 10**9
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

MAX_ITEMS = 1000
"""The most of a batch, and of the ids of a request."""
MAX_TEXT_BYTES = 32 * 1024
MAX_TITLE_BYTES = 1024
MAX_LABEL_KEY_BYTES = 64
MAX_KEYWORDS = 64
MAX_EVIDENCE = 64
MAX_CLOSES = 64
CLOCK_LEEWAY = timedelta(minutes=2)
"""The most by which a device's clock may be ahead: a question would not find what is said later
than it."""
LENGTH_TOLERANCE = 1e-3
"""Well above what rounding to float16 or bfloat16 does to the length of a vector."""


def to_item(
    check: Checker, field: str, message: ingest_pb.IngestItem, now: datetime, at: datetime
) -> Segment | Fact | None:
    """Reads one item, whose time is `at` unless it has one; None if it is of neither kind."""
    match message.WhichOneof("item"):
        case "segment":
            return to_segment(check, f"{field}.segment", message.segment, now, at)
        case "fact":
            return to_fact(check, f"{field}.fact", message.fact, now, at)
        case _:
            check.reject(field, "must be a segment or a fact")
            return None


def is_dated(message: ingest_pb.IngestItem) -> bool:
    """Whether a segment has its `event_time`, or a fact its `recorded_at`."""
    if message.WhichOneof("item") == "segment":
        return message.segment.HasField("event_time")
    return message.fact.HasField("recorded_at")


def to_segment(
    check: Checker, field: str, message: segment_pb2.Segment, now: datetime, at: datetime
) -> Segment:
    """Reads a segment, whose time is `at` unless it has one; violations go to `check`."""
    said = check.optional_instant(f"{field}.event_time", message)
    if said is None or now < said <= now + CLOCK_LEEWAY:
        said = at
    return Segment(
        id=check.text(f"{field}.id", message.id, MAX_ID_BYTES, required=True),
        text=check.text(f"{field}.text", message.text, MAX_TEXT_BYTES, required=True),
        title=check.text(f"{field}.title", message.title, MAX_TITLE_BYTES),
        kind=check.text(f"{field}.kind", message.kind, 64) or DEFAULT_KIND,
        speaker=check.text(f"{field}.speaker", message.speaker, MAX_NAME_BYTES),
        session=check.text(f"{field}.session", message.session, MAX_NAME_BYTES),
        event_time=said,
        importance=check.number(f"{field}.importance", message.importance, 0, 1)
        if message.HasField("importance")
        else DEFAULT_IMPORTANCE,
        sensitive=message.sensitive,
        labels=to_labels(check, f"{field}.labels", message.labels),
        entities=check.texts(f"{field}.entities", message.entities, MAX_ENTITIES, MAX_NAME_BYTES),
        entity=check.text(f"{field}.entity", message.entity, MAX_NAME_BYTES),
        keywords=check.texts(f"{field}.keywords", message.keywords, MAX_KEYWORDS, MAX_NAME_BYTES),
        # The clock of the service that it was exported from may be ahead.
        created_at=min(created, now)
        if (created := check.optional_instant(f"{field}.created_at", message))
        else None,
        expires_at=to_expiry(check, f"{field}.expires_at", message, now),
    )


def to_labels(check: Checker, field: str, given: Mapping[str, str]) -> dict[str, str]:
    """Reads labels; violations go to `check`."""
    if len(given) > MAX_LABELS:
        check.reject(field, f"must be at most {MAX_LABELS}, are {len(given)}")
        return {}
    for key, value in given.items():
        check.text(f"{field}[{key!r}]", key, MAX_LABEL_KEY_BYTES, required=True)
        check.text(f"{field}[{key!r}]", value, MAX_NAME_BYTES)
    return dict(given)


def to_expiry(check: Checker, field: str, message: Message, now: datetime) -> datetime | None:
    """Reads when an item expires: not in the past, since it would be erased unseen."""
    expires_at = check.optional_instant(field, message)
    if expires_at is not None and expires_at <= now:
        check.reject(field, f"must be in the future, is {expires_at.isoformat()}")
    return expires_at


def to_given_vector(
    check: Checker, field: str, message: segment_pb2.Segment, model: EmbeddingModel
) -> Vector | None:
    """Reads the vector that comes with a segment; None without a valid one."""
    if not message.HasField("embedding"):
        return None
    field = f"{field}.embedding"
    if message.sensitive:
        check.reject(field, "must not be set: a sensitive segment has no vector")
    if message.embedding.model_fingerprint != model.fingerprint:
        expected = f"must be that of the service's model, {model.fingerprint!r}"
        check.reject(f"{field}.model_fingerprint", expected)
        return None
    if (count := len(message.embedding.values)) != model.dimension:
        expected = f"must have the model's {model.dimension} dimensions, has {count}"
        check.reject(f"{field}.values", expected)
        return None
    # In float64: in float32 the length of a huge vector is infinite, that of a tiny one 0.
    length = math.hypot(*message.embedding.values)
    if not abs(length - 1) <= LENGTH_TOLERANCE:  # nor if it is NaN
        check.reject(f"{field}.values", f"must be finite and of length 1, has length {length:g}")
        return None
    return np.array(message.embedding.values, np.float32)


def to_fact(
    check: Checker, field: str, message: fact_pb2.Fact, now: datetime, at: datetime
) -> Fact:
    """Reads a fact, recorded `at` unless it says when; violations go to `check`."""

    def instant(name: str) -> datetime | None:
        return check.optional_instant(f"{field}.{name}", message)

    fact = Fact(
        id=check.text(f"{field}.id", message.id, MAX_ID_BYTES, required=True),
        subject=check.text(f"{field}.subject", message.subject, MAX_NAME_BYTES, required=True),
        relation=check.text(f"{field}.relation", message.relation, MAX_NAME_BYTES, required=True),
        object=check.text(f"{field}.object", message.object, MAX_OBJECT_BYTES, required=True),
        sentence=check.text(f"{field}.sentence", message.sentence, MAX_SENTENCE_BYTES),
        valid_from=instant("valid_from"),
        valid_to=instant("valid_to"),
        recorded_at=instant("recorded_at") or at,
        retracted_at=instant("retracted_at"),
        evidence=check.texts(f"{field}.evidence", message.evidence, MAX_EVIDENCE, MAX_ID_BYTES),
        weight=check.number(f"{field}.weight", message.weight, 1e-6, 1)
        if message.HasField("weight")
        else 1.0,
        sensitive=message.sensitive,
        closes=check.texts(f"{field}.closes", message.closes, MAX_CLOSES, MAX_ID_BYTES),
        single_valued=message.single_valued,
        expires_at=to_expiry(check, f"{field}.expires_at", message, now),
    )
    if fact.id in fact.closes:
        check.reject(f"{field}.closes[{fact.closes.index(fact.id)}]", "must be another fact")
    if fact.valid_from and fact.valid_to and fact.valid_to <= fact.valid_from:
        check.reject(f"{field}.valid_to", "must be after valid_from")
    return fact


def to_reference(check: Checker, field: str, message: item_pb2.ItemRef) -> ItemId:
    """Reads a reference; violations go to `check`."""
    name = message.WhichOneof("item")
    if name is None:
        check.reject(field, "must have one of segment_id, fact_id")
        return segment_id("")
    id_ = check.text(f"{field}.{name}", getattr(message, name), MAX_ID_BYTES, required=True)
    return segment_id(id_) if name == "segment_id" else fact_id(id_)


def from_reference(item: ItemId) -> item_pb2.ItemRef:
    """Writes a reference."""
    if item.kind is ItemKind.SEGMENT:
        return item_pb2.ItemRef(segment_id=item.id)
    return item_pb2.ItemRef(fact_id=item.id)


def from_segment(segment: Segment) -> segment_pb2.Segment:
    """Writes a stored segment."""
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
        entities=segment.entities,
        entity=segment.entity,
        keywords=segment.keywords,
        created_at=timestamp(segment.created_at),
        updated_at=timestamp(segment.updated_at),
        mentions=[
            filter_pb2.TimeRange(start=timestamp(each.begins), end=timestamp(each.ends))
            for each in segment.mentions
        ],
        expires_at=timestamp(segment.expires_at),
        version=segment.version,
    )


def from_fact(fact: Fact) -> fact_pb2.Fact:
    """Writes a stored fact."""
    return fact_pb2.Fact(
        id=fact.id,
        subject=fact.subject,
        relation=fact.relation,
        object=fact.object,
        sentence=fact.statement,
        valid_from=timestamp(fact.valid_from),
        valid_to=timestamp(fact.valid_to),
        recorded_at=timestamp(fact.recorded_at),
        retracted_at=timestamp(fact.retracted_at),
        evidence=fact.evidence,
        weight=fact.weight,
        sensitive=fact.sensitive,
        created_at=timestamp(fact.created_at),
        updated_at=timestamp(fact.updated_at),
        closes=fact.closes,
        single_valued=fact.single_valued,
        expires_at=timestamp(fact.expires_at),
        version=fact.version,
        closings=[
            fact_pb2.FactClosing(
                fact_id=each.by,
                at=timestamp(each.at),
                recorded_at=timestamp(each.recorded_at),
                retracted_at=timestamp(each.retracted_at),
            )
            for each in fact.closings
        ],
    )


def duration(seconds: float) -> Duration:
    """Writes seconds."""
    nanoseconds = int(seconds * 1e9)
    whole = abs(nanoseconds) // NANOSECONDS * (1 if nanoseconds > 0 else -1)
    return Duration(seconds=whole, nanos=nanoseconds - whole * NANOSECONDS)


def timestamp(instant: datetime | None) -> Timestamp | None:
    """Writes an instant; None stays unset."""
    if instant is None:
        return None
    # As `FromDatetime` does, in a third of the time.
    since = instant - _EPOCH
    return Timestamp(seconds=since.days * 86_400 + since.seconds, nanos=since.microseconds * 1000)
