"""The RPCs of IngestService: each reads its request, calls the pipeline and writes the response."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import TypeAlias, get_args
from uuid import uuid4

from serving import telemetry
from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import Violation
from serving.domain.items.records import Fact, ItemId, Segment
from serving.pipeline.writes.ingest import Ingested
from serving.ports.embedding import EmbeddingModel, Vector
from serving.ports.memory_store import Batch, GivenVectors, Outcome
from serving.rpc.boundary import rpc
from serving.rpc.check import MAX_ID_BYTES, Checker
from serving.rpc.forget import from_forgotten, from_selected, to_selector
from serving.rpc.items import MAX_ITEMS, from_reference, is_dated, to_given_vector, to_item
from serving.rpc.patch import from_patched, to_patch_call
from serving.rpc.registration import Malformed
from serving.rpc.use_cases import Rpcs
from trivium.v1 import ingest_service_pb2 as pb

_ITEM_STATES = {
    outcome: getattr(pb, f"ITEM_STATE_{outcome.upper()}") for outcome in get_args(Outcome)
}
_APART = timedelta(microseconds=1)
IngestMessage: TypeAlias = pb.IngestRequest | pb.IngestStreamRequest

FORGET_BUDGET_S = 10.0
MAX_REJECTED_LISTED = 100


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
        return from_patched(
            await self.use_cases.patcher.patch(
                call.tenant,
                call.item,
                call.patch,
                if_version=call.if_version,
                time_zone=call.time_zone,
            )
        )

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
