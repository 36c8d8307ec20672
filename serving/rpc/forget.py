"""Forget: reads what is to be erased, and writes what was, with a receipt of each store."""

from __future__ import annotations

from collections import Counter

from serving.domain.items.records import MAX_NAME_BYTES, TenantName, fact_id, segment_id
from serving.domain.questions.filters import TIMES
from serving.domain.questions.query import Filter
from serving.pipeline.writes.forget import Forgotten, LookupKey
from serving.ports.memory_store import Selected, Selector
from serving.rpc.check import MAX_ID_BYTES, Checker
from serving.rpc.filters import filters_within, to_filter
from serving.rpc.items import MAX_ITEMS
from trivium.v1 import filter_pb2
from trivium.v1 import ingest_service_pb2 as pb

MAX_SPEAKERS_LISTED = 100
_LOOKUP_KEYS = {key: getattr(pb, f"LOOKUP_KEY_{key.name}") for key in LookupKey}


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
