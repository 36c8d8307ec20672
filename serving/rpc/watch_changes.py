"""WatchChanges: reads from where to go on, and writes what changed."""

from __future__ import annotations

from dataclasses import dataclass

from serving.domain.changes import ChangesPosition
from serving.domain.consistency import ConsistencyToken
from serving.domain.items.records import TenantName
from serving.ports.change_feed import ChangesRead
from serving.rpc.check import Checker
from serving.rpc.items import from_reference
from serving.rpc.pages import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE
from trivium.v1 import catalog_service_pb2 as catalog_pb

MAX_TOKEN_BYTES = 16 * 1024
"""Of a position, which names the transactions that were in progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchCall:
    """A checked WatchChangesRequest; `after` is None for what changes from now on."""

    tenant: TenantName
    after: ConsistencyToken | ChangesPosition | None
    batch_size: int


def to_watch_call(request: catalog_pb.WatchChangesRequest) -> WatchCall:
    """Reads a WatchChangesRequest."""
    with Checker() as check:
        if request.batch_size < 0:
            check.reject("batch_size", f"must not be below 0, is {request.batch_size}")
        return WatchCall(
            tenant=check.tenant(request.tenant),
            after=_after(check, request.after_token),
            batch_size=min(request.batch_size, MAX_PAGE_SIZE) or DEFAULT_PAGE_SIZE,
        )


def _after(check: Checker, token: str) -> ConsistencyToken | ChangesPosition | None:
    if not token:
        return None
    if (size := len(token.encode())) > MAX_TOKEN_BYTES:
        check.reject("after_token", f"must be at most {MAX_TOKEN_BYTES} bytes, has {size}")
        return None
    for parse in (ChangesPosition.parse, ConsistencyToken.parse):
        try:
            return parse(token)
        except ValueError:
            continue
    check.reject("after_token", "must be a token of WatchChanges, or one that a write returned")
    return None


def from_changes(read: ChangesRead) -> catalog_pb.WatchChangesResponse:
    """Writes changes."""
    return catalog_pb.WatchChangesResponse(
        changes=[
            catalog_pb.ItemChange(
                item=from_reference(each.item),
                change=catalog_pb.CHANGE_KIND_ERASED
                if each.erased
                else catalog_pb.CHANGE_KIND_STORED,
                token=str(each.after),
            )
            for each in read.changes
        ],
        token=str(read.position),
    )
