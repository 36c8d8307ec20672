"""Pages of the catalog, and the statistics."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from serving.domain.items.records import ItemKind
from serving.pipeline.retrieval.leg_runner import LegReport, LegState
from serving.pipeline.writes.stats import About, Overview
from serving.ports.memory_store import TenantCounts
from serving.ports.vector_index import IndexStatus, IndexTier
from serving.rpc.catalog import to_list_segments_call
from serving.rpc.get_stats import from_overview
from serving.rpc.items import duration
from serving.rpc.recent_legs import MAX_ANSWERS, WITHIN_S, RecentLegs
from tests.support.refusals import refused_for
from tests.support.stepped_clock import SteppedClock
from trivium.v1 import catalog_service_pb2 as catalog_pb
from trivium.v1.catalog_service_pb2 import LegStats, ListSegmentsRequest


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
    request = ListSegmentsRequest(**{"tenant": "acme", **fields})

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
        catalog_pb.IndexTier(
            kind="segment",
            vector_count=90_000,
            dead_count=1000,
            approximate=True,
            rebuilding="filling 40 %",
            failure="no memory",
            memory_bytes=10**8,
        ),
        catalog_pb.IndexTier(kind="fact", vector_count=40, dead_count=2, memory_bytes=50_000),
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

    assert lexical == LegStats(
        leg="lexical", answer_count=3, p50=duration(0.004), p95=duration(0.009)
    )
    assert graph == LegStats(
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
