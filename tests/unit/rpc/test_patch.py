"""Patch: what it reads, and what it answers."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc.error_details_pb2 import ErrorInfo

from serving.domain.items.records import MAX_LABELS
from serving.pipeline.writes.ingest import Ingestor
from serving.pipeline.writes.patch import Patch, Patcher
from serving.rpc.patch import to_patch_call
from tests.fakes.store import InMemoryStore
from tests.support.builders import NOON, TENANT, batch_of, fact, segment
from tests.support.refusals import refused_for
from tests.unit.rpc.calling import Call, service_over
from trivium.v1.ingest_service_pb2 import PatchRequest
from trivium.v1.item_pb2 import ItemRef

A, F = ItemRef(segment_id="a"), ItemRef(fact_id="f")
SOON, NOW, BEFORE = (Timestamp(seconds=int(NOON.timestamp()) + n) for n in (1, 0, -1))


def asked(item: ItemRef = A, **fields: Any) -> PatchRequest:
    return PatchRequest(**{"tenant": TENANT, "item": item, **fields})


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (asked(tenant="", title="x"), "tenant"),
        (asked(ItemRef(), title="x"), "item"),
        (asked(ItemRef(segment_id=" "), title="x"), "item.segment_id"),
        (asked(), "request"),
        (asked(if_version=1, time_zone="UTC"), "request"),
        (asked(text=" "), "text"),
        (asked(text="x" * 32_769), "text"),
        (asked(F, text="x" * 4_097), "text"),
        (asked(title="x" * 1_025), "title"),
        (asked(importance=1.5), "importance"),
        (asked(importance=float("nan")), "importance"),
        (asked(set_labels={"": "x"}), "set_labels['']"),
        (asked(set_labels={"k": "x" * 257}), "set_labels['k']"),
        (asked(set_labels={str(n): "" for n in range(MAX_LABELS + 1)}), "set_labels"),
        (asked(set_labels={"k": "x"}, remove_labels=["k"]), "set_labels['k']"),
        (asked(remove_labels=[""]), "remove_labels[0]"),
        (asked(remove_labels=[str(n) for n in range(MAX_LABELS + 1)]), "remove_labels"),
        (asked(expires_at=NOW), "expires_at"),
        (asked(expires_at=BEFORE), "expires_at"),
        (asked(expires_at=SOON, never_expires=True), "never_expires"),
        (asked(title="x", if_version=0), "if_version"),
        (asked(title="x", time_zone="Atlantis"), "time_zone"),
        (asked(F, title="x"), "title"),
        (asked(F, importance=0.5), "importance"),
        (asked(F, set_labels={"k": "x"}), "set_labels"),
        (asked(F, remove_labels=["k"]), "remove_labels"),
    ],
)
def test_invalid_field_of_a_patch_is_named(request_: PatchRequest, field: str) -> None:
    with refused_for(field):
        to_patch_call(request_, NOON)


@pytest.mark.parametrize(
    ("request_", "patch"),
    [
        (asked(text="x"), Patch(text="x")),
        (asked(title=""), Patch(title="")),
        (asked(importance=0), Patch(importance=0)),
        (asked(F, text=""), Patch(text="")),
        (asked(expires_at=SOON), Patch(expires_at=SOON.ToDatetime(NOON.tzinfo))),
        (asked(never_expires=True), Patch(never_expires=True)),
        (
            asked(set_labels={"k": "x"}, remove_labels=["l"]),
            Patch(set_labels={"k": "x"}, remove_labels=("l",)),
        ),
    ],
)
def test_fields_that_are_set_change(request_: PatchRequest, patch: Patch) -> None:
    assert to_patch_call(request_, NOON).patch == patch


async def patched(call: Call, request: PatchRequest) -> Any:
    store = InMemoryStore()
    await store.write(batch_of(segment("a"), fact("f", "x", "y", "z")))
    patcher = Patcher(store, Ingestor(store), lambda: NOON)
    return await service_over({"patcher": patcher}, now=lambda: NOON).Patch(request, call)


@pytest.mark.parametrize("item", [A, F], ids=["segment", "fact"])
async def test_answer_has_the_item_and_its_version(item: ItemRef) -> None:
    answer = await patched(call := Call(), asked(item, text="We sailed.", if_version=1))

    assert call.code is grpc.StatusCode.OK
    found = answer.segment if item is A else answer.fact
    assert (found.id, found.version) == (item.segment_id or item.fact_id, 2)
    assert (answer.segment.text or answer.fact.sentence) == "We sailed."
    assert answer.consistency_token


@pytest.mark.parametrize(
    ("request_", "code", "reason", "metadata"),
    [
        (
            asked(title="x", if_version=7),
            grpc.StatusCode.ABORTED,
            "VERSION_CONFLICT",
            {"kind": "segment", "id": "a", "version": "1"},
        ),
        (
            asked(ItemRef(fact_id="a"), text="x"),
            grpc.StatusCode.NOT_FOUND,
            "ITEM_NOT_FOUND",
            {"kind": "fact", "id": "a"},
        ),
    ],
)
async def test_refused_patch_says_why(
    request_: PatchRequest, code: grpc.StatusCode, reason: str, metadata: dict[str, str]
) -> None:
    await patched(call := Call(), request_)

    info = call.detail(ErrorInfo)
    assert (call.code, info.reason, dict(info.metadata)) == (code, reason, metadata)
