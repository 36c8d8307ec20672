"""Patch: reads which fields of an item change, and writes the item as it is stored now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, tzinfo

from serving.domain.items.records import (
    MAX_LABELS,
    MAX_SENTENCE_BYTES,
    Fact,
    ItemId,
    ItemKind,
    TenantName,
)
from serving.pipeline.writes.patch import Patch, Patched
from serving.rpc.check import Checker
from serving.rpc.items import (
    MAX_LABEL_KEY_BYTES,
    MAX_TEXT_BYTES,
    MAX_TITLE_BYTES,
    from_fact,
    from_segment,
    to_expiry,
    to_labels,
    to_reference,
)
from trivium.v1 import ingest_service_pb2 as pb

CHANGES = (
    *("text", "title", "importance", "set_labels", "remove_labels", "expires_at"),
    "never_expires",
)
OF_SEGMENTS = ("title", "importance", "set_labels", "remove_labels")


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
            for name in sorted(given.intersection(OF_SEGMENTS)):
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


def from_patched(patched: Patched) -> pb.PatchResponse:
    """Writes the item, and the token of the write."""
    token = str(patched.token)
    if isinstance(patched.item, Fact):
        return pb.PatchResponse(fact=from_fact(patched.item), consistency_token=token)
    return pb.PatchResponse(segment=from_segment(patched.item), consistency_token=token)
