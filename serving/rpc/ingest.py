"""Ingest and IngestStream: reads a batch, and writes the outcome of each item."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import TypeAlias, get_args
from uuid import uuid4

from serving.domain.errors import Violation
from serving.domain.items.records import Fact, ItemId, Segment
from serving.pipeline.writes.ingest import Ingested
from serving.ports.embedding import EmbeddingModel, Vector
from serving.ports.memory_store import Batch, GivenVectors, Outcome
from serving.rpc.check import MAX_ID_BYTES, Checker
from serving.rpc.items import MAX_ITEMS, from_reference, is_dated, to_given_vector, to_item
from trivium.v1 import ingest_service_pb2 as ingest_pb

_ITEM_STATES = {
    outcome: getattr(ingest_pb, f"ITEM_STATE_{outcome.upper()}") for outcome in get_args(Outcome)
}
_APART = timedelta(microseconds=1)
IngestMessage: TypeAlias = ingest_pb.IngestRequest | ingest_pb.IngestStreamRequest


@dataclass(frozen=True, slots=True)
class IngestCall:
    """A checked IngestRequest: the valid items, and the violations of the others, by place."""

    batch: Batch
    places: list[int]
    """The places of the items of the batch in the request."""
    rejected: dict[int, tuple[ItemId | None, list[Violation]]]


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
        check.text("idempotency_key", request.idempotency_key, MAX_ID_BYTES)
        if not request.items:
            check.reject("items", "must not be empty")
        if len(request.items) > MAX_ITEMS:
            check.reject("items", f"must be at most {MAX_ITEMS}, are {len(request.items)}")

    items: dict[int, Segment | Fact] = {}
    rejected: dict[int, tuple[ItemId | None, list[Violation]]] = {}
    undated: set[ItemId] = set()
    vectors: dict[ItemId, Vector] = {}
    versions: dict[ItemId, int] = {}
    for place, given in enumerate(request.items):
        message = with_id(given, place, request.idempotency_key)
        of_item = Checker()
        # Items without a time have that of the call, in the order in which they came.
        at = now - (len(request.items) - 1 - place) * _APART
        item = to_item(of_item, f"items[{place}]", message, now, at)
        vector = None
        if model and message.HasField("segment"):
            segment = f"items[{place}].segment"
            vector = to_given_vector(of_item, segment, message.segment, model)
        version = of_item.version(f"items[{place}].if_version", message)
        if item is None or of_item.violations:
            rejected[place] = (item.item if item else None, of_item.violations)
            continue
        items[place] = item
        # Of items with the same id the last one is stored, with its time, vector and version or
        # none.
        undated.discard(item.item)
        if not is_dated(message):
            undated.add(item.item)
        vectors.pop(item.item, None)
        if vector is not None:
            vectors[item.item] = vector
        versions.pop(item.item, None)
        if version is not None:
            versions[item.item] = version
    batch = Batch(
        tenant,
        list(items.values()),
        request.text_search_config,
        undated=frozenset(undated),
        given=GivenVectors(model, vectors) if model else None,
        time_zone=time_zone,
        versions=versions,
    )
    return IngestCall(batch, list(items), rejected)


def with_id(message: ingest_pb.IngestItem, place: int, key: str) -> ingest_pb.IngestItem:
    """Gives an item without an id one: by the key of its call, else by its content and time.

    Without either, nothing tells a call that is sent again from a turn that is said again, and each
    has an id of its own.
    """
    kind = message.WhichOneof("item")
    if kind is None or getattr(message, kind).id:
        return message
    if key:
        told = f"{key}\0{place}".encode()
    elif is_dated(message):
        told = message.SerializeToString(deterministic=True)
    else:
        told = uuid4().bytes
    named = ingest_pb.IngestItem()
    named.CopyFrom(message)
    getattr(named, kind).id = blake2b(told, digest_size=16).hexdigest()
    return named


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
