"""The catalog: pages, statistics, what is known of somebody, and what changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
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
from serving.domain.items.records import Item, ItemKind
from serving.pipeline.retrieval.describe import Describer
from serving.pipeline.retrieval.holding import Holding
from serving.pipeline.retrieval.leg_runner import LegReport, LegState
from serving.pipeline.writes.stats import About, Overview
from serving.pipeline.writes.watch import ChangeWatcher
from serving.ports.memory_store import TenantCounts
from serving.ports.vector_index import IndexStatus, IndexTier
from serving.rpc.catalog_service import from_overview, to_list_segments_call, to_watch_call
from serving.rpc.identity.authenticator import Authenticator
from serving.rpc.identity.rules import ANYONE
from serving.rpc.items import duration
from serving.rpc.pages import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE
from serving.rpc.recent_legs import MAX_ANSWERS, WITHIN_S, RecentLegs
from serving.rpc.retrieval_service import to_describe_call
from tests.fakes.change_feed import EPOCH, InMemoryChangeFeed
from tests.fakes.times import InMemoryTimeline
from tests.support.builders import A_DAY_LATER, NOON, TENANT, days, fact, ids, segment
from tests.support.refusals import refused_for
from tests.support.stepped_clock import SteppedClock
from tests.unit.pipeline.retrieval.retrieving import store_of
from tests.unit.rpc.calling import Call, service_over
from tests.unit.rpc.identity.callers import bearer
from trivium.v1 import catalog_service_pb2 as pb
from trivium.v1.retrieval_service_pb2 import DescribeEntityRequest, DescribeEntityResponse


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"page_size": -1}, "page_size"),
        ({"page_token": "2"}, "page_token"),
        ({"page_token": "after:a\x00"}, "page_token"),
        ({"page_token": "after:" + "x" * 257}, "page_token"),
        ({"page_token": "before:a"}, "page_token"),
        ({"tenant": ""}, "tenant"),
    ],
)
def test_a_malformed_page_names_its_field(fields: dict[str, Any], field: str) -> None:
    request = pb.ListSegmentsRequest(**{"tenant": "acme", **fields})

    with refused_for(field):
        to_list_segments_call(request)


def test_stats_show_the_search_of_each_kind() -> None:
    exact = IndexTier(kind=ItemKind.FACT, rows=40, dead=2, memory_bytes=50_000)
    lists = IndexTier(
        kind=ItemKind.SEGMENT,
        rows=90_000,
        dead=1000,
        memory_bytes=10**8,
        approximate=True,
        rebuilding="filling 40 %",
        failure="no memory",
    )

    stats = from_overview(overview(IndexStatus(True, 90_040, 3, tiers=(lists, exact))))

    assert list(stats.index.tiers) == [
        pb.IndexTier(
            kind="segment",
            vector_count=90_000,
            dead_count=1000,
            approximate=True,
            rebuilding="filling 40 %",
            failure="no memory",
            memory_bytes=10**8,
        ),
        pb.IndexTier(kind="fact", vector_count=40, dead_count=2, memory_bytes=50_000),
    ]


def test_counts_that_are_not_known_are_unset() -> None:
    nothing = overview(IndexStatus(True, 0, 1))

    assert from_overview(nothing).HasField("tenant")
    assert not from_overview(replace(nothing, tenant=None)).HasField("tenant")


def overview(index: IndexStatus) -> Overview:
    """A service with this index and nothing else to tell of."""
    return Overview(
        about=About(
            version="1",
            placement="single",
            ingress="direct",
            started_at=datetime(2026, 1, 1, tzinfo=UTC),
        ),
        tenant=TenantCounts(0, 0, 0, 0, 0, "", ""),
        projections=[],
        dead_letters=[],
        index=index,
        model=None,
        entities=0,
    )


def report(leg: str, elapsed_s: float, state: LegState = LegState.OK) -> LegReport:
    return LegReport(leg=leg, state=state, elapsed_s=elapsed_s)


def test_legs_have_states_and_latencies_of_answers() -> None:
    recent = RecentLegs(SteppedClock())
    recent.add([report("lexical", 0.004), report("graph", 0.1, LegState.TIMED_OUT)])
    recent.add([report("lexical", 0.002), report("graph", 0.0, LegState.SKIPPED)])
    recent.add([report("lexical", 0.009)])

    graph, lexical = recent.activities()

    assert lexical == pb.LegStats(
        leg="lexical", answer_count=3, p50=duration(0.004), p95=duration(0.009)
    )
    assert graph == pb.LegStats(
        leg="graph",
        answer_count=2,
        timed_out_count=1,
        skipped_count=1,
        p50=duration(0.1),
        p95=duration(0.1),
    )


def test_answers_of_long_ago_are_left_out() -> None:
    clock = SteppedClock()
    recent = RecentLegs(clock)
    recent.add([report("graph", 0.1), report("lexical", 0.1)])
    clock.now += WITHIN_S + 1
    recent.add([report("lexical", 0.2)])

    (lexical,) = recent.activities()

    assert (lexical.leg, lexical.p50, lexical.answer_count) == ("lexical", duration(0.2), 1)


def test_memory_of_answers_is_bounded() -> None:
    recent = RecentLegs(SteppedClock())
    for _ in range(MAX_ANSWERS + 5):
        recent.add([report("lexical", 0.1)])

    assert recent.activities()[0].answer_count == MAX_ANSWERS


# ---------------------------------------------------------------- describing an entity


async def described(*items: Item, **fields: Any) -> DescribeEntityResponse:
    store = await store_of(*items)
    service = service_over({"describer": Describer(store, Holding(store, InMemoryTimeline(store)))})
    asked = {"tenant": TENANT, "speaker": "mia", "as_of": A_DAY_LATER, **fields}
    return await service.DescribeEntity(DescribeEntityRequest(**asked), Call())


async def test_rows_are_those_of_the_block() -> None:
    items: list[Item] = [
        fact("tea", "Mia", "likes", "tea", valid_from=NOON - days(9)),
        fact("boat", "Mia", "owns", "a boat", valid_from=NOON - days(2)),
        segment("leaks", "The hull leaks.", speaker="Mia"),
        segment("beans", "We planted beans.", speaker="Mia", event_time=NOON - days(1)),
    ]

    whole = await described(*items)
    short = await described(*items, max_chars=280)

    assert [each.id for each in whole.facts] == ["boat", "tea"]
    assert [each.id for each in whole.statements] == ["leaks", "beans"]
    assert whole.briefing.splitlines()[3:-1] == [
        "- Since Fri 20 February 2026: Mia likes tea",
        "- Since Fri 27 February 2026: Mia owns a boat",
        '- Sat 28 February 2026, Mia said: "We planted beans."',
        '- Sun 1 March 2026, Mia said: "The hull leaks."',
    ]
    assert len(short.briefing) <= 280
    assert [each.id for each in short.facts] == ["boat"]
    assert [each.id for each in short.statements] == ["leaks"]
    assert whole.elapsed.ToTimedelta() > timedelta(0)


async def test_unknown_name_has_an_empty_block() -> None:
    answer = await described(segment("a"), speaker="Nobody")

    assert (answer.briefing, len(answer.facts), len(answer.statements)) == ("", 0, 0)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "who"),
        ({"speaker": " "}, "speaker"),
        ({"entity": "x" * 257}, "entity"),
        ({"entity": "a\0b"}, "entity"),
        ({"speaker": "Mia", "tenant": ""}, "tenant"),
        ({"speaker": "Mia", "max_chars": 199}, "max_chars"),
        ({"speaker": "Mia", "time_budget": timedelta(0)}, "time_budget"),
        ({"speaker": "Mia", "time_zone": "Mars"}, "time_zone"),
        ({"speaker": "Mia", "consistency_token": "?"}, "consistency_token"),
    ],
)
def test_bad_question_about_an_entity_names_its_field(fields: dict[str, Any], field: str) -> None:
    request = DescribeEntityRequest(**{"tenant": TENANT, **fields})

    with refused_for(field):
        to_describe_call(request, NOON)


# ---------------------------------------------------------------- changes


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
    request = pb.WatchChangesRequest(tenant=TENANT, after_token=str(position))

    assert to_watch_call(request).after == position


def test_request_is_read_with_its_defaults() -> None:
    unset = to_watch_call(pb.WatchChangesRequest(tenant=TENANT))
    full = pb.WatchChangesRequest(tenant=TENANT, after_token=str(WRITTEN), batch_size=10**9)

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
        to_watch_call(pb.WatchChangesRequest(**{"tenant": TENANT, **fields}))


async def test_changes_are_written_with_kind_and_token() -> None:
    feed = InMemoryChangeFeed()
    token = feed.write(*ids("a"))
    feed.write(*ids("b"), erased=True)
    service = service_over({"watcher": ChangeWatcher(feed)})
    request = pb.WatchChangesRequest(tenant=TENANT, after_token=str(token))

    watched = service.WatchChanges(request, Call())
    response = await anext(watched)
    await watched.aclose()

    assert [(each.item.segment_id, each.change) for each in response.changes] == [
        ("a", pb.CHANGE_KIND_STORED),
        ("b", pb.CHANGE_KIND_ERASED),
    ]
    first, last = (ChangesPosition.parse(each.token) for each in response.changes)
    assert ChangesPosition.parse(response.token).log == last.log
    assert not first.log.includes(4)


async def test_changes_that_are_gone_have_their_reason() -> None:
    feed = InMemoryChangeFeed()
    feed.is_gone = True
    service, call = service_over({"watcher": ChangeWatcher(feed)}), Call()
    request = pb.WatchChangesRequest(tenant=TENANT, after_token=str(WRITTEN))

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
    request = pb.WatchChangesRequest(tenant=TENANT, after_token=token, batch_size=1)

    responses = [each async for each in service.WatchChanges(request, call)]

    assert len(responses) == 1
    assert call.code is grpc.StatusCode.UNAUTHENTICATED
