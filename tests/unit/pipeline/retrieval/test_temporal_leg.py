"""What a question that names a time finds by that alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from serving.adapters.resident import TenantsInMemory
from serving.domain.budget import Deadline
from serving.domain.errors import DependencyError, OverloadedError
from serving.domain.items.period import Period
from serving.domain.items.records import Segment, segment_id
from serving.domain.questions.query import NO_FILTER, Filter, TimeRange
from serving.domain.ranking.profile import LegSpec, Profile, SignalSpec
from serving.domain.ranking.ranked_list import Candidate
from serving.pipeline.index.vector_space import VectorSpace
from serving.pipeline.retrieval.leg_runner import LegState
from serving.pipeline.retrieval.legs import TemporalLeg
from serving.ports.embedding import VectorLike
from serving.ports.vector_index import IndexAnswer, WantedNeighbours
from tests.fakes.meaning import FakeEmbedder
from tests.fakes.pipeline import FixedDates, FixedIndex, FixedLeg
from tests.fakes.resident_feed import InMemoryFeed
from tests.fakes.simulation.virtual_time import run_in_virtual_time
from tests.fakes.store import InMemoryStore
from tests.fakes.times import InMemoryTimeline
from tests.support.builders import NOON, TENANT, days, query, scope, segment
from tests.unit.pipeline.retrieval.retrieving import answered, hit_ids, states, store_of

SAID = [
    segment("a", "one", event_time=NOON - days(3)),
    segment("b", "two", event_time=NOON - days(2)),
    segment("c", "three", event_time=NOON - days(1)),
    segment("d", "four", event_time=NOON - days(0.1)),
]


class NearestIndex(FixedIndex):
    """An index that has these segments, nearest first; without any, it raises or never answers."""

    def __init__(
        self, *found: Segment, error: Exception | None = None, stale: bool = False
    ) -> None:
        super().__init__()
        self._found = found
        self._error = error
        self._stale = stale

    async def search(self, vector: VectorLike, wanted: WantedNeighbours, *_: Any) -> IndexAnswer:
        if self._error is not None:
            raise self._error
        if not self._found:
            await asyncio.Event().wait()
        accepted = filter(wanted.scope.segment_filter.accepts, self._found)
        candidates = [
            Candidate(segment_id(each.id), 1 - place / 10) for place, each in enumerate(accepted)
        ]
        return IndexAnswer(candidates[: wanted.depth], epoch=1, stale=self._stale)


async def asked(
    *periods: Period,
    named_times: bool = True,
    alone: bool = False,
    earliest_first: bool = False,
    depth: int = 10,
    words: str = "",
    filter_: Filter = NO_FILTER,
    index: FixedIndex | None = None,
    deadline: Deadline | None = None,
    state: LegState = LegState.OK,
) -> list[str]:
    """What a question finds that names these times, and has words that find these.

    The leg of time ends in `state`.
    """
    store = await store_of(*SAID)
    specs = (
        LegSpec(name="lexical", weight=0.1),
        LegSpec(name="temporal", named_times=named_times, depth=depth),
    )
    answer = await answered(
        store,
        {"lexical": FixedLeg(words), "temporal": TemporalLeg(InMemoryTimeline(store))},
        Profile(name="times", legs=specs),
        query("?", scope=scope(filter_=filter_, as_of=NOON)),
        dates=FixedDates(*periods, alone=alone, earliest_first=earliest_first),
        space=VectorSpace.of(FakeEmbedder(), index or FixedIndex()),
        deadline=deadline,
    )
    assert states(answer)["temporal"] is state
    return hit_ids(answer)


def period(begins: float, ends: float) -> Period:
    return Period(NOON + days(begins), NOON + days(ends))


LAST_DAYS = period(-2.5, -0.5)
FAR_DAYS = (period(-3.5, -2.5), period(-0.5, 0))
BEFORE = Filter(event_time=TimeRange(None, NOON - days(1.5)))
ALONE = {"alone": True}


@pytest.mark.parametrize(
    ("periods", "options", "found"),
    [
        ([LAST_DAYS], {}, "c b"),
        (FAR_DAYS, {}, "d a"),
        (FAR_DAYS, {"depth": 1}, "d"),
        ([LAST_DAYS], {"filter_": BEFORE}, "b"),
        ([], {}, ""),
        ([], {"named_times": False}, "d c b a"),
        ([LAST_DAYS], {"words": "a c"}, "c b a"),
        ([LAST_DAYS], {"words": "a c", **ALONE}, "c b"),
        ([period(-9.5, -8.5)], {"words": "a c", **ALONE}, "a c"),
        ([period(-99, 99)], {"words": "d", "earliest_first": True, **ALONE}, "a b c d"),
    ],
    ids=[
        *("latest first", "every time", "at most the depth", "within the filter", "no time"),
        *("latest of all", "with words", "the only question", "empty", "earliest first"),
    ],
)
async def test_named_time_finds_its_segments(
    periods: Sequence[Period], options: dict[str, Any], found: str
) -> None:
    assert await asked(*periods, **options) == found.split()


async def test_nearest_of_a_named_time_comes_first() -> None:
    index = NearestIndex(SAID[1], SAID[3], SAID[2])
    stale = NearestIndex(SAID[2], SAID[1], stale=True)

    assert await asked(LAST_DAYS, index=index) == ["b", "c"]
    assert await asked(LAST_DAYS, index=index, depth=1) == ["b"]
    assert await asked(period(-2.5, -1.5), period(-1.5, 0), index=index, depth=2) == ["b", "d"]
    assert await asked(LAST_DAYS, index=index, alone=True) == ["c", "b"]
    assert await asked(LAST_DAYS, index=stale, state=LegState.STALE) == ["c", "b"]


@pytest.mark.parametrize(
    "error", [DependencyError("index", "lost"), OverloadedError("the index"), TimeoutError()]
)
async def test_latest_come_first_without_the_index(error: Exception) -> None:
    assert await asked(LAST_DAYS, index=NearestIndex(error=error)) == ["c", "b"]


def test_hung_index_leaves_time_for_the_latest() -> None:
    async def answer() -> list[str]:
        deadline = Deadline.after(1.0, asyncio.get_running_loop().time)
        return await asked(LAST_DAYS, index=NearestIndex(), deadline=deadline)

    assert run_in_virtual_time(answer()) == ["c", "b"]


async def view_of(*segments: Segment) -> TenantsInMemory:
    feed = InMemoryFeed()
    feed.put(*segments)
    view = TenantsInMemory(feed, 2**30)
    await view.load(TENANT, Deadline.after(60))
    return view


@pytest.mark.parametrize(("alone", "found"), [(True, ["c", "b", "about"]), (False, ["c", "about"])])
async def test_named_time_is_found_in_memory(alone: bool, found: list[str]) -> None:
    about = segment("about", event_time=NOON - days(3), mentions=(period(-1.5, -1),))
    stored = [*SAID, about]
    legs = {"temporal": TemporalLeg(InMemoryTimeline(InMemoryStore()))}

    answer = await answered(
        stored,
        legs,
        replace(TIMES, signals=()),
        query("?", scope=scope(as_of=NOON)),
        dates=FixedDates(period(-2.5, -0.5), alone=alone),
        space=VectorSpace.of(FakeEmbedder(), NearestIndex(SAID[2])),
        view=await view_of(*stored),
    )

    assert hit_ids(answer) == found
    assert [report.in_memory for report in answer.reports] == [alone]


TIMES = Profile(
    name="times",
    legs=(LegSpec(name="temporal", named_times=True),),
    signals=(SignalSpec(name="time", weight=1.0),),
)


async def test_dates_of_a_question_are_read_once() -> None:
    dates, store = FixedDates(period(-2.5, -0.5)), await store_of(*SAID)
    asks = query("?", scope=scope(as_of=NOON))

    legs = {"temporal": TemporalLeg(InMemoryTimeline(store))}
    await answered(store, legs, TIMES, asks, dates=dates)

    assert dates.asked == [("?", NOON)]


async def test_said_about_a_time_is_every_fourth() -> None:
    at = NOON + days(1)
    asks = query("?", scope=scope(as_of=NOON + days(9)))
    said = [segment(f"said{n}", f"{n}", event_time=at + days(0.1 * n)) for n in range(5)]
    about = [
        segment(f"about{n}", f"plan {n}", mentions=(period(1, 2),), event_time=NOON + days(0.1 * n))
        for n in range(2)
    ]
    store = await store_of(*said, *about)
    legs = {"temporal": TemporalLeg(InMemoryTimeline(store))}
    profile = replace(TIMES, signals=())

    answer = await answered(store, legs, profile, asks, dates=FixedDates(period(1, 2)))

    assert hit_ids(answer) == ["said4", "said3", "said2", "about1", "said1", "said0", "about0"]
    assert answer.hits[3].ledger.leg_terms[0].path == "said about it"
