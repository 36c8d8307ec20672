"""The RPCs of IngestService: each reads its request, calls the pipeline and writes the response."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from hashlib import blake2b
from typing import TypeAlias, get_args
from uuid import uuid4

from serving import telemetry
from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import Violation
from serving.domain.items.records import (
    MAX_LABELS,
    MAX_NAME_BYTES,
    MAX_SENTENCE_BYTES,
    Fact,
    ItemId,
    ItemKind,
    Segment,
    TenantName,
    fact_id,
    segment_id,
)
from serving.domain.questions.filters import TIMES
from serving.domain.questions.query import Filter
from serving.pipeline.writes.forget import Forgotten, LookupKey
from serving.pipeline.writes.ingest import Ingested
from serving.pipeline.writes.patch import Patch
from serving.ports.embedding import EmbeddingModel, Vector
from serving.ports.memory_store import Batch, GivenVectors, Outcome, Selected, Selector
from serving.rpc.boundary import rpc
from serving.rpc.check import MAX_ID_BYTES, Checker
from serving.rpc.filters import filters_within, to_filter
from serving.rpc.items import (
    MAX_ITEMS,
    MAX_LABEL_KEY_BYTES,
    MAX_TEXT_BYTES,
    MAX_TITLE_BYTES,
    from_fact,
    from_reference,
    from_segment,
    is_dated,
    to_expiry,
    to_given_vector,
    to_item,
    to_labels,
    to_reference,
)
from serving.rpc.registration import Malformed
from serving.rpc.use_cases import Rpcs
from trivium.v1 import filter_pb2
from trivium.v1 import ingest_service_pb2 as pb

_ITEM_STATES = {
    outcome: getattr(pb, f"ITEM_STATE_{outcome.upper()}") for outcome in get_args(Outcome)
}
_APART = timedelta(microseconds=1)
IngestMessage: TypeAlias = pb.IngestRequest | pb.IngestStreamRequest

FORGET_BUDGET_S = 10.0
MAX_REJECTED_LISTED = 100
MAX_SPEAKERS_LISTED = 100
CHANGES = (
    *("text", "title", "importance", "set_labels", "remove_labels", "expires_at"),
    "never_expires",
)
CHANGES_OF_SEGMENTS = ("title", "importance", "set_labels", "remove_labels")
_LOOKUP_KEYS = {key: getattr(pb, f"LOOKUP_KEY_{key.name}") for key in LookupKey}


class IngestService(Rpcs):
    """Writes, changes and erasures."""

    @rpc
    async def Ingest(self, request: pb.IngestRequest) -> pb.IngestResponse:
        """Stores a batch."""
        call = await self._read(request)
        return from_ingested(call, await self._store(call))

    @rpc
    async def IngestStream(
        self, stream: AsyncIterator[pb.IngestStreamRequest | Malformed]
    ) -> pb.IngestStreamResponse:
        """Stores a stream of batches."""
        response = pb.IngestStreamResponse()
        token: ConsistencyToken | None = None
        before = 0
        async for request in stream:
            if isinstance(request, Malformed):
                raise request.error()
            call = await self._read(request)
            ingested = await self._store(call, patient=True)
            if ingested is not None:
                token = ingested.token if token is None else token.merged(ingested.token)
                response.created_count += ingested.outcomes.count("created")
                response.updated_count += ingested.outcomes.count("updated")
                response.unchanged_count += ingested.outcomes.count("unchanged")
            response.rejected_count += len(call.rejected)
            room = MAX_REJECTED_LISTED - len(response.rejected)
            response.rejected.extend(
                _rejected_outcome(before + place, item, violations)
                for place, (item, violations) in list(call.rejected.items())[:room]
            )
            before += len(request.items)
        response.consistency_token = str(token) if token is not None else ""
        return response

    async def _read(self, request: IngestMessage) -> IngestCall:
        has_vectors = any(item.segment.HasField("embedding") for item in request.items)
        model = await self.use_cases.embedder.model() if has_vectors else None
        return to_ingest_call(request, self._now(), model)

    async def _store(self, call: IngestCall, *, patient: bool = False) -> Ingested | None:
        if not call.batch.items:
            return None
        ingested = await self.use_cases.ingestor.ingest(call.batch, patient=patient)
        for outcome in ingested.outcomes:
            self.recorder.record(telemetry.ITEMS_WRITTEN, 1, {"outcome": outcome})
        return ingested

    @rpc
    async def Patch(self, request: pb.PatchRequest) -> pb.PatchResponse:
        """Changes fields of an item."""
        call = to_patch_call(request, self._now())
        patched = await self.use_cases.patcher.patch(
            call.tenant,
            call.item,
            call.patch,
            if_version=call.if_version,
            time_zone=call.time_zone,
        )
        token = str(patched.token)
        if isinstance(patched.item, Fact):
            return pb.PatchResponse(fact=from_fact(patched.item), consistency_token=token)
        return pb.PatchResponse(segment=from_segment(patched.item), consistency_token=token)

    @rpc
    async def Forget(self, request: pb.ForgetRequest) -> pb.ForgetResponse:
        """Erases items, or counts them."""
        tenant, selector = to_selector(request)
        if request.dry_run:
            return from_selected(await self.use_cases.store.count_selected(tenant, selector))
        deadline = Deadline.after(FORGET_BUDGET_S)
        return from_forgotten(await self.use_cases.eraser.forget(tenant, selector, deadline))


@dataclass(frozen=True, slots=True)
class IngestCall:
    """A checked IngestRequest: the valid items, and the violations of the others, by place."""

    batch: Batch
    places: list[int]
    """The places of the items of the batch in the request."""
    rejected: dict[int, tuple[ItemId | None, list[Violation]]]


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
    # Of items with the same id the last one is stored, with its time, vector and version or none.
    last: dict[ItemId, tuple[bool, Vector | None, int | None]] = {}
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
        last[item.item] = is_dated(message), vector, version
    vectors = {item: vector for item, (_, vector, _) in last.items() if vector is not None}
    batch = Batch(
        tenant,
        list(items.values()),
        request.text_search_config,
        undated=frozenset(item for item, (dated, _, _) in last.items() if not dated),
        given=GivenVectors(model, vectors) if model else None,
        time_zone=time_zone,
        versions={item: of for item, (_, _, of) in last.items() if of is not None},
    )
    return IngestCall(batch, list(items), rejected)


def with_id(message: pb.IngestItem, place: int, key: str) -> pb.IngestItem:
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
    named = pb.IngestItem()
    named.CopyFrom(message)
    getattr(named, kind).id = blake2b(told, digest_size=16).hexdigest()
    return named


def from_ingested(call: IngestCall, ingested: Ingested | None) -> pb.IngestResponse:
    """Writes the outcomes of a batch; `ingested` is None if every item was rejected."""
    outcomes = {
        place: _rejected_outcome(place, rejected, violations)
        for place, (rejected, violations) in call.rejected.items()
    }
    if ingested is not None:
        written = zip(call.places, call.batch.items, ingested.outcomes, strict=True)
        for place, item, outcome in written:
            outcomes[place] = pb.ItemOutcome(
                index=place, item=from_reference(item.item), state=_ITEM_STATES[outcome]
            )
    return pb.IngestResponse(
        outcomes=[outcome for _, outcome in sorted(outcomes.items())],
        consistency_token=str(ingested.token) if ingested is not None else "",
    )


def _rejected_outcome(
    place: int, item: ItemId | None, violations: Sequence[Violation]
) -> pb.ItemOutcome:
    return pb.ItemOutcome(
        index=place,
        item=from_reference(item) if item is not None else None,
        state=pb.ITEM_STATE_REJECTED,
        violations=[
            pb.ItemViolation(field=field, description=description)
            for field, description in violations
        ],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchCall:
    """A checked PatchRequest."""

    tenant: TenantName
    item: ItemId
    patch: Patch
    if_version: int | None
    time_zone: tzinfo | None


def to_patch_call(request: pb.PatchRequest, now: datetime) -> PatchCall:
    """Reads a PatchRequest."""
    given = {field.name for field, _ in request.ListFields()}
    with Checker() as check:
        tenant = check.tenant(request.tenant)
        item = to_reference(check, "item", request.item)
        if given.isdisjoint(CHANGES):
            check.reject("request", f"must change one of {', '.join(CHANGES)}")
        is_fact = item.kind is ItemKind.FACT
        if is_fact:
            for name in sorted(given.intersection(CHANGES_OF_SEGMENTS)):
                check.reject(name, "must not be set: a fact has none")
        for key in sorted(set(request.set_labels) & set(request.remove_labels)):
            check.reject(f"set_labels[{key!r}]", "must not be in remove_labels too")
        if request.never_expires and request.HasField("expires_at"):
            check.reject("never_expires", "must not be set together with expires_at")
        most = MAX_SENTENCE_BYTES if is_fact else MAX_TEXT_BYTES
        patch = Patch(
            # A fact without a sentence has the one of its other fields.
            text=check.text("text", request.text, most, required=not is_fact)
            if request.HasField("text")
            else None,
            title=check.text("title", request.title, MAX_TITLE_BYTES)
            if request.HasField("title")
            else None,
            importance=check.number("importance", request.importance, 0, 1)
            if request.HasField("importance")
            else None,
            set_labels=to_labels(check, "set_labels", request.set_labels),
            remove_labels=check.texts(
                "remove_labels", request.remove_labels, MAX_LABELS, MAX_LABEL_KEY_BYTES
            ),
            expires_at=to_expiry(check, "expires_at", request, now),
            never_expires=request.never_expires,
        )
        return PatchCall(
            tenant=tenant,
            item=item,
            patch=patch,
            if_version=check.version("if_version", request),
            time_zone=check.time_zone("time_zone", request.time_zone),
        )


def to_selector(request: pb.ForgetRequest) -> tuple[TenantName, Selector]:
    """Reads a ForgetRequest."""
    with Checker() as check:
        return check.tenant(request.tenant), _selector(check, request)


def _selector(check: Checker, request: pb.ForgetRequest) -> Selector:
    match request.WhichOneof("selector"):
        case "ids":
            segments, facts = (
                check.texts(f"ids.{name}", getattr(request.ids, name), MAX_ITEMS, MAX_ID_BYTES)
                for name in ("segment_ids", "fact_ids")
            )
            if not segments and not facts:
                check.reject("ids", "must name a segment or a fact")
            return Selector(items=(*map(segment_id, segments), *map(fact_id, facts)))
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
    for path, each, _ in filters_within("filter", message):
        for name in TIMES:
            if each.HasField(name):
                _require_bounds(check, f"{path}.{name}", getattr(each, name))
        for place, label in enumerate(each.labels):
            if label.HasField("date"):
                _require_bounds(check, f"{path}.labels[{place}].date", label.date)
            if label.HasField("number") and not label.number.ListFields():
                check.reject(f"{path}.labels[{place}].number", "must have a min or a max")
    if not check.violations and not filter_.selects:
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


def from_forgotten(forgotten: Forgotten) -> pb.ForgetResponse:
    """Writes the result of an erasure."""
    return pb.ForgetResponse(
        segment_count=forgotten.segments,
        fact_count=forgotten.facts,
        receipts=[
            pb.StoreReceipt(
                store=receipt.store,
                verified=receipt.verified,
                remaining_count=receipt.remaining,
                reason=receipt.reason,
                removed_count=receipt.removed,
                lookups=[
                    pb.Lookup(
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


def from_selected(selected: Selected) -> pb.ForgetResponse:
    """Writes what an erasure would erase."""
    speakers = Counter(selected.segments_by_speaker)
    return pb.ForgetResponse(
        segment_count=speakers.total(),
        fact_count=selected.facts,
        speakers=[
            pb.SpeakerCount(speaker=speaker, segment_count=count)
            for speaker, count in speakers.most_common(MAX_SPEAKERS_LISTED)
        ],
    )
