"""WatchChanges: what of a request is refused, and who may go on watching."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from hypothesis import given
from hypothesis import strategies as st

from serving.domain.changes import ChangesPosition
from serving.domain.consistency import MAX_XID, ConsistencyToken, Snapshot
from serving.domain.errors import UnauthenticatedError
from serving.domain.identity import Caller
from serving.pipeline.writes.watch import ChangeWatcher
from serving.rpc.identity.authenticator import Authenticator
from serving.rpc.identity.rules import ANYONE
from serving.rpc.pages import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE
from serving.rpc.watch_changes import to_watch_call
from tests.fakes.change_feed import EPOCH, InMemoryChangeFeed
from tests.support.builders import TENANT, ids
from tests.support.refusals import refused_for
from tests.unit.rpc.calling import Call, service_over
from tests.unit.rpc.identity.callers import bearer
from trivium.v1.catalog_service_pb2 import (
    CHANGE_KIND_ERASED,
    CHANGE_KIND_STORED,
    WatchChangesRequest,
)

WRITTEN = ConsistencyToken.of(EPOCH, [7, 9])
XIDS = st.integers(3, MAX_XID)


@st.composite
def positions(draw: st.DrawFn) -> ChangesPosition:
    in_progress = draw(st.frozensets(XIDS, max_size=9))
    xmax = max(in_progress, default=3)
    begun = draw(st.dictionaries(XIDS, st.integers(0, MAX_XID), max_size=3))
    return ChangesPosition(EPOCH, Snapshot(min(xmax + 1, MAX_XID), in_progress - {MAX_XID}), begun)


@given(positions())
def test_position_survives_being_written_and_read(position: ChangesPosition) -> None:
    request = WatchChangesRequest(tenant=TENANT, after_token=str(position))

    assert to_watch_call(request).after == position


def test_request_is_read_with_its_defaults() -> None:
    unset = to_watch_call(WatchChangesRequest(tenant=TENANT))
    full = WatchChangesRequest(tenant=TENANT, after_token=str(WRITTEN), batch_size=10**9)

    assert (unset.after, unset.batch_size) == (None, DEFAULT_PAGE_SIZE)
    assert (to_watch_call(full).after, to_watch_call(full).batch_size) == (WRITTEN, MAX_PAGE_SIZE)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"tenant": ""}, "tenant"),
        ({"batch_size": -1}, "batch_size"),
        *(
            ({"after_token": token}, "after_token")
            for token in (
                *("?", "2~e~5~~9", "2~e~5~7~", "2~e~2~~", "2~e~x~~", "2~e~5~~7:", "2~e~5~~1:9"),
                *(f"2~e~{MAX_XID + 1}~~", f"2~e~9~~7:{MAX_XID + 1}", "2~e~9~" + "3." * 9_000),
                *("3~e~9~~", "2~~9~~", f"2~{'e' * 65}~9~~"),
            )
        ),
    ],
)
def test_bad_request_names_its_field(fields: dict[str, Any], field: str) -> None:
    with refused_for(field):
        to_watch_call(WatchChangesRequest(**{"tenant": TENANT, **fields}))


async def test_changes_are_written_with_kind_and_token() -> None:
    feed = InMemoryChangeFeed()
    token = feed.write(*ids("a"))
    feed.write(*ids("b"), erased=True)
    service = service_over({"watcher": ChangeWatcher(feed)})
    request = WatchChangesRequest(tenant=TENANT, after_token=str(token))

    watched = service.WatchChanges(request, Call())
    response = await anext(watched)
    await watched.aclose()

    assert [(each.item.segment_id, each.change) for each in response.changes] == [
        ("a", CHANGE_KIND_STORED),
        ("b", CHANGE_KIND_ERASED),
    ]
    first, last = (ChangesPosition.parse(each.token) for each in response.changes)
    assert ChangesPosition.parse(response.token).log == last.log
    assert not first.log.includes(4)


async def test_changes_that_are_gone_have_their_reason() -> None:
    feed = InMemoryChangeFeed()
    feed.is_gone = True
    service, call = service_over({"watcher": ChangeWatcher(feed)}), Call()
    request = WatchChangesRequest(tenant=TENANT, after_token=str(WRITTEN))

    assert [each async for each in service.WatchChanges(request, call)] == []

    assert call.code is grpc.StatusCode.FAILED_PRECONDITION
    assert call.detail(ErrorInfo).reason == "CHANGES_GONE"


def revoked_after(calls: int) -> Callable[[str], Caller]:
    """Accepts credentials for some calls, and then no more."""
    left = [calls]

    def verify(_: str) -> Caller:
        left[0] -= 1
        if left[0] < 0:
            raise UnauthenticatedError("the key was revoked")
        return replace(ANYONE, name="bot", tenants=frozenset({TENANT}))

    return verify


async def test_revoked_key_ends_the_stream() -> None:
    feed = InMemoryChangeFeed()
    token = str(feed.write(*ids("a", "b", "c")))
    service = service_over(
        {"watcher": ChangeWatcher(feed)}, authenticator=Authenticator(tokens=revoked_after(2))
    )
    call = bearer("x")
    request = WatchChangesRequest(tenant=TENANT, after_token=token, batch_size=1)

    responses = [each async for each in service.WatchChanges(request, call)]

    assert len(responses) == 1
    assert call.code is grpc.StatusCode.UNAUTHENTICATED
