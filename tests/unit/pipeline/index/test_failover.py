"""What a standby on a CPU answers in the place of, when, and what is said of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import (
    DependencyError,
    DeviceLostError,
    NotReadyError,
    OverloadedError,
)
from serving.domain.items.records import ItemId, ItemKind, TenantName, segment_id
from serving.domain.questions.query import Query
from serving.pipeline.index.failover import (
    CHECK_S,
    Failover,
    FailoverIndex,
    FailoverSearch,
    ready_check,
)
from serving.pipeline.index.sharding import ShardedIndex
from serving.pipeline.index.text_search import EmbeddedSearch, QuestionVectors
from serving.pipeline.index.vector_spaces import VectorSpace, VectorSpaces
from serving.pipeline.retrieval.leg_runner import LegState
from serving.pipeline.retrieval.legs import DenseLeg, Leg
from serving.ports.embedding import Vector, VectorLike, Vectors
from serving.ports.vector_index import IndexAnswer, IndexStatus, WantedNeighbours
from tests.fakes.meaning import EngineIndex, FakeEmbedder, InMemoryIndex, segment_row, unit
from tests.fakes.pipeline import FixedLeg, RecordingAccess
from tests.support.builders import TENANT, ids, query, scope, segment
from tests.unit.pipeline.retrieval.retrieving import retriever, soon, store_of
from tests.unit.pipeline.retrieval.test_retrieve import TWO_LEGS

LOST = DeviceLostError("index", "the device was lost; the replica is being replaced")
GONE = DependencyError("index", "its replica cannot be reached")
FILLING = NotReadyError("index", "starting")
HANGS = TimeoutError()
"""Raised by nobody: it stands for no answer at all."""

Fault = Exception | None

NAMES = [str(number) for number in range(12)]
WANTED = WantedNeighbours(ItemKind.SEGMENT, scope(), 3)


def rows_in_memory() -> EngineIndex:
    engine = InMemoryIndex()
    engine.apply([segment_row(segment(name), unit(int(name))) for name in NAMES], [])
    return EngineIndex(engine)


class FaultyIndex(EngineIndex):
    """An index that fails on command: `fault` is raised, and `HANGS` answers nobody."""

    def __init__(self, fault: Fault = None) -> None:
        engine = InMemoryIndex()
        engine.apply([segment_row(segment(name), unit(int(name))) for name in NAMES], [])
        super().__init__(engine)
        self.fault = fault
        self.asked = 0
        self.cancelled = 0
        self.seen = True
        self.snapshots = 0

    async def _fail(self) -> None:
        if self.fault is HANGS:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        if self.fault is not None:
            raise self.fault

    async def search(
        self, vector: VectorLike, wanted: WantedNeighbours, deadline: Deadline
    ) -> IndexAnswer:
        self.asked += 1
        await self._fail()
        return await super().search(vector, wanted, deadline)

    async def related(
        self, query: Query, seeds: Sequence[ItemId], depth: int, deadline: Deadline
    ) -> IndexAnswer:
        await self._fail()
        return await super().related(query, seeds, depth, deadline)

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        await self._fail()
        return await super().count(tenant, items)

    async def caught_up(self, token: ConsistencyToken, deadline: Deadline) -> bool:
        await self._fail()
        return self.seen

    async def outdated_snapshots(self, write: ConsistencyToken, deadline: Deadline) -> int:
        await self._fail()
        return self.snapshots

    async def status(self, tenant: TenantName | None = None) -> IndexStatus:
        if isinstance(self.fault, NotReadyError):
            return IndexStatus(False, 0, 2, self.fault.why)
        await self._fail()
        return await super().status()


class WaitingIndex(FaultyIndex):
    """An index that answers when the test lets it, and says all the while that it is well."""

    def __init__(self) -> None:
        super().__init__()
        self.released = asyncio.Event()
        self.was_asked_how_it_is = asyncio.Event()

    async def search(
        self, vector: VectorLike, wanted: WantedNeighbours, deadline: Deadline
    ) -> IndexAnswer:
        self.asked += 1
        await self.released.wait()
        return await super().search(vector, wanted, deadline)

    async def status(self, tenant: TenantName | None = None) -> IndexStatus:
        self.was_asked_how_it_is.set()
        return await super().status()


class FaultyEmbedder(FakeEmbedder):
    """An embedder that fails on command."""

    def __init__(self, fault: Fault = None) -> None:
        super().__init__()
        self.fault = fault
        self.asked: list[str] = []

    async def embed_query(self, text: str, deadline: Deadline) -> Vector:
        self.asked.append(text)
        if self.fault is not None:
            raise self.fault
        return await super().embed_query(text, deadline)

    async def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        if self.fault is not None:
            raise self.fault
        return await super().embed_documents(texts)


async def search(index: FailoverIndex | ShardedIndex, seconds: float = 30) -> IndexAnswer:
    async with asyncio.timeout(seconds + 20):  # one that hangs fails soon
        return await index.search(unit(1), WANTED, Deadline.after(seconds))


async def is_back(index: FailoverIndex) -> None:
    """Asks until the primary answers."""
    async with asyncio.timeout(10):
        while (await search(index)).standbys:  # noqa: ASYNC110 - questions alone find it out
            await asyncio.sleep(0.01)


# ---------------------------------------------------------------- who answers


@pytest.mark.parametrize("fault", [LOST, GONE])
async def test_the_standby_answers_for_a_primary_that_failed_and_says_so(fault: Exception) -> None:
    primary, standby = FaultyIndex(), FaultyIndex()
    index = FailoverIndex(primary, standby)
    right = await search(index)

    primary.fault = fault
    answer = await search(index)

    assert (right.standbys, answer.standbys) == ((), ("index",))
    assert answer.candidates == right.candidates


async def test_a_primary_that_says_nothing_leaves_the_standby_enough_of_the_time() -> None:
    primary, standby = FaultyIndex(HANGS), FaultyIndex()

    answer = await search(FailoverIndex(primary, standby), seconds=1)

    assert answer.standbys == ("index",)
    await asyncio.sleep(0)
    assert primary.cancelled, "nobody waits for it any more"


async def test_while_the_primary_is_away_no_question_waits_for_it() -> None:
    primary, standby = FaultyIndex(GONE), FaultyIndex()
    index = FailoverIndex(primary, standby)
    await search(index)

    primary.fault = HANGS
    answers = await asyncio.gather(*(search(index) for _ in range(5)))

    assert primary.asked == 1
    assert all(answer.standbys for answer in answers)


async def test_the_primary_is_asked_again_once_it_says_that_it_is_back() -> None:
    primary, standby = FaultyIndex(GONE), FaultyIndex()
    index = FailoverIndex(primary, standby)
    await search(index)

    primary.fault = None
    await is_back(index)

    asked = standby.asked
    await search(index)
    assert standby.asked == asked


async def test_one_that_is_being_filled_again_is_not_back_yet() -> None:
    primary, standby = FaultyIndex(), FaultyIndex()
    index = FailoverIndex(primary, standby)
    await search(index)
    for fault in (GONE, FILLING):
        primary.fault = fault
        for _ in range(3):
            assert (await search(index)).standbys == ("index",)

    primary.fault = None
    await is_back(index)


async def test_one_that_says_that_it_does_not_answer_yet_is_not_asked() -> None:
    asked, checked = 0, asyncio.Event()

    async def primary(until: Deadline) -> str:
        nonlocal asked
        asked += 1
        raise GONE

    async def standby(until: Deadline) -> str:
        return "standby"

    async def check(until: Deadline) -> bool:
        checked.set()
        return False

    async def call(part: Callable[[Deadline], Awaitable[str]], until: Deadline) -> str:
        return await part(until)

    failover = Failover("index", primary, standby, check)
    await failover.ask(call, soon())
    await failover.ask(call, soon())
    await checked.wait()
    await asyncio.sleep(0)
    await failover.ask(call, soon())

    assert asked == 1


async def test_one_that_is_being_filled_for_the_first_time_is_no_loss() -> None:
    standby = FaultyIndex()

    with pytest.raises(NotReadyError, match="starting"):
        await search(FailoverIndex(FaultyIndex(FILLING), standby))

    assert not standby.asked


async def test_one_that_waits_for_a_write_and_says_that_it_is_well_is_waited_for() -> None:
    primary, standby = WaitingIndex(), FaultyIndex()
    index = FailoverIndex(primary, standby)

    asked = asyncio.create_task(search(index, seconds=1))
    await primary.was_asked_how_it_is.wait()
    primary.released.set()

    assert (await asked).standbys == ()
    assert not standby.asked


async def test_what_is_wrong_with_a_question_or_a_full_queue_is_no_loss() -> None:
    for fault in (ValueError("dimensions"), OverloadedError("the embedder's queue")):
        standby = FaultyIndex()
        with pytest.raises(type(fault)):
            await search(FailoverIndex(FaultyIndex(fault), standby))
        assert not standby.asked


async def test_without_either_both_reasons_are_told() -> None:
    for primary, standby, kind in (
        (GONE, FILLING, DependencyError),
        (GONE, LOST, DependencyError),
    ):
        with pytest.raises(kind) as told:
            await search(FailoverIndex(FaultyIndex(primary), FaultyIndex(standby)))
        assert str(told.value) == f"index: {primary.why}; its standby: {standby.why}"
        assert not isinstance(told.value, NotReadyError)


async def test_where_both_are_being_filled_the_leg_is_skipped_and_not_broken() -> None:
    primary = FaultyIndex()
    index = FailoverIndex(primary, FaultyIndex(FILLING))
    await search(index)

    primary.fault = FILLING
    with pytest.raises(NotReadyError, match="starting; its standby: starting"):
        await search(index)


# ---------------------------------------------------------------- never a wrong id

FAULTS = st.sampled_from([None, LOST, GONE, FILLING])


@given(
    st.lists(st.tuples(FAULTS, FAULTS, st.integers(0, 11), st.integers(1, 12)), max_size=12),
    st.integers(1, 2),
)
async def test_whatever_fails_an_answer_is_that_of_all_rows_or_there_is_none(
    steps: list[tuple[Fault, Fault, int, int]], shards: int
) -> None:
    """Two shards of the same rows merge into the same answer, whichever of the four answers."""
    whole = rows_in_memory()
    primaries, standbys = (
        [FaultyIndex() for _ in range(shards)],
        [FaultyIndex() for _ in range(shards)],
    )
    index = ShardedIndex([FailoverIndex(*pair) for pair in zip(primaries, standbys, strict=True)])
    for primary_fault, standby_fault, asked, depth in steps:
        primaries[0].fault, standbys[0].fault = primary_fault, standby_fault
        question = (unit(asked), replace(WANTED, depth=depth), soon())
        try:
            answer = await index.search(*question)
        except DependencyError:
            assert shards == 1, "the other one always answers"
            continue
        assert answer.candidates == (await whole.search(*question)).candidates


# ---------------------------------------------------------------- what else is asked


async def test_an_erased_row_must_be_gone_from_both() -> None:
    emptied = EngineIndex(InMemoryIndex())
    item = [segment_id("1")]

    assert await FailoverIndex(rows_in_memory(), emptied).count(TENANT, item) == 1
    assert await FailoverIndex(emptied, rows_in_memory()).count(TENANT, item) == 1
    assert await FailoverIndex(emptied, emptied).count(TENANT, item) == 0
    with pytest.raises(DependencyError):
        await FailoverIndex(emptied, FaultyIndex(GONE)).count(TENANT, item)


async def test_outdated_snapshots_of_either_count() -> None:
    token = ConsistencyToken.of("in-memory", [7])
    late = FaultyIndex()
    late.snapshots = 2

    assert await FailoverIndex(FaultyIndex(), late).outdated_snapshots(token, soon()) == 2
    assert await FailoverIndex(late, FaultyIndex()).outdated_snapshots(token, soon()) == 2


async def test_a_write_is_seen_when_both_have_seen_it() -> None:
    token = ConsistencyToken.of("in-memory", [7])
    late = FaultyIndex()
    late.seen = False

    assert await FailoverIndex(FaultyIndex(), FaultyIndex()).caught_up(token, soon())
    assert not await FailoverIndex(FaultyIndex(), late).caught_up(token, soon())
    assert not await FailoverIndex(late, FaultyIndex()).caught_up(token, soon())


async def test_the_state_is_the_primarys_or_the_standbys_with_the_reason() -> None:
    primary, standby = FaultyIndex(), FaultyIndex()
    index = FailoverIndex(primary, standby)
    well = await index.status()

    primary.fault = GONE
    stood_in_for = await index.status()
    standby.fault = FILLING
    neither = await index.status()

    assert (well.ready, well.reason) == (True, "")
    assert stood_in_for.ready
    assert stood_in_for.reason == "its replica cannot be reached; its standby on the CPU answers"
    assert not neither.ready
    assert neither.reason == "its replica cannot be reached; its standby: starting"


# ---------------------------------------------------------------- embedding


async def test_questions_are_embedded_by_the_standby() -> None:
    primary, standby = FaultyEmbedder(), FaultyEmbedder()
    right = await QuestionVectors(primary, standby).of(TENANT, "goa", soon())

    primary.fault = DeviceLostError("embedder", "the device was lost")
    made = await QuestionVectors(primary, standby).of(TENANT, "goa", soon())

    assert (right.by_standby, made.by_standby) == (False, True)
    assert np.array_equal(made.vector, right.vector)


async def test_a_question_that_the_standby_embedded_is_the_primarys_again_once_that_is_back() -> (
    None
):
    primary = FaultyEmbedder(GONE)
    questions = QuestionVectors(primary, FakeEmbedder())
    assert (await questions.of(TENANT, "goa", soon())).by_standby

    primary.fault = None
    primary.asked.clear()
    async with asyncio.timeout(10):
        while (await questions.of(TENANT, "goa", soon())).by_standby:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert "goa" in primary.asked

    asked = len(primary.asked)
    await questions.of(TENANT, "goa", soon())
    assert len(primary.asked) == asked, "that one is kept"


def embedding(primary: FakeEmbedder, standby: FakeEmbedder, index: FailoverIndex) -> VectorSpaces:
    """A space whose embedder has a standby."""
    search = EmbeddedSearch(QuestionVectors(primary, standby), index)
    return VectorSpaces(VectorSpace(primary, index, search))


@pytest.mark.parametrize(
    ("embedder_fault", "index_fault", "standbys"),
    [
        (None, None, ()),
        (None, GONE, ("index",)),
        (GONE, None, ("embedder",)),
        (GONE, GONE, ("embedder", "index")),
    ],
)
async def test_a_leg_reports_which_of_its_parts_a_standby_answered(
    embedder_fault: Fault, index_fault: Fault, standbys: tuple[str, ...]
) -> None:
    spaces = embedding(
        FaultyEmbedder(embedder_fault),
        FakeEmbedder(),
        FailoverIndex(FaultyIndex(index_fault), FaultyIndex()),
    )

    legs: dict[str, Leg] = {"lexical": FixedLeg("1"), "dense": DenseLeg(RecordingAccess())}
    answer = await retriever(await store_of(segment("1")), legs, spaces=spaces).retrieve(
        query("?"), TWO_LEGS, soon()
    )

    report = answer.reports[1]
    assert (report.state, report.reason, report.standbys) == (LegState.OK, "", standbys)


async def test_a_leg_whose_question_nobody_can_embed_in_time_failed_for_the_embedder() -> None:
    too_slow = DependencyError("embedder", "it would take about 900 ms, and 40 ms are left")
    spaces = embedding(
        FaultyEmbedder(GONE),
        FaultyEmbedder(too_slow),
        FailoverIndex(FaultyIndex(), FaultyIndex()),
    )

    legs: dict[str, Leg] = {"lexical": FixedLeg("1"), "dense": DenseLeg(RecordingAccess())}
    answer = await retriever(await store_of(segment("1")), legs, spaces=spaces).retrieve(
        query("?"), TWO_LEGS, soon()
    )

    report = answer.reports[1]
    assert report.state is LegState.FAILED
    assert report.reason == (
        "embedder: its replica cannot be reached; its standby: "
        "it would take about 900 ms, and 40 ms are left"
    )


# ---------------------------------------------------------------- both in one place


async def test_what_embeds_and_searches_in_one_place_is_stood_in_for_as_a_whole() -> None:
    both = FaultyIndex()
    primary = EmbeddedSearch(QuestionVectors(FakeEmbedder()), both)
    vectors = QuestionVectors(FaultyEmbedder(GONE), FakeEmbedder())
    standby = EmbeddedSearch(vectors, FaultyIndex())
    search = FailoverSearch(primary, standby, ready_check(both))
    question = ("?", WANTED, soon())
    right = await search.search(*question)

    both.fault = LOST
    answer = await search.search(*question)

    assert (right.standbys, answer.standbys) == ((), ("embedder", "index"))
    assert answer.candidates == right.candidates


async def test_with_little_time_a_silent_primary_is_found_out_by_those_that_come_later() -> None:
    """Milliseconds are too short to decide; requests meanwhile go on, and then detect it."""
    primary, standby = FaultyIndex(HANGS), FaultyIndex()
    index = FailoverIndex(primary, standby)

    async def asked() -> bool:
        try:
            async with asyncio.timeout(0.05):
                return bool((await search(index, seconds=0.05)).standbys)
        except TimeoutError:
            return False

    assert not await asked()
    assert not standby.asked
    async with asyncio.timeout(120 * CHECK_S):
        while not await asked():
            pass


async def test_what_is_related_is_found_by_the_standby_too() -> None:
    primary, standby = FaultyIndex(), rows_in_memory()
    index = FailoverIndex(primary, standby)

    before = await index.related(query("?"), ids("1"), 10, soon())
    primary.fault = GONE
    after = await index.related(query("?"), ids("1"), 10, soon())

    assert (before.standbys, after.standbys) == ((), ("index",))


# ---------------------------------------------------------------- without a standby


async def test_without_a_standby_a_lost_primary_fails_requests_at_once_until_it_is_back() -> None:
    primary = FaultyIndex(HANGS)
    index = FailoverIndex(primary)
    with pytest.raises(DependencyError, match="it does not answer"):
        await search(index, seconds=1)
    asked = primary.asked

    with pytest.raises(DependencyError, match="it does not answer"):
        await search(index)

    assert primary.asked == asked, "nobody waits for it any more"

    primary.fault = None
    async with asyncio.timeout(10):
        while True:
            with contextlib.suppress(DependencyError):
                found = await search(index)
                break
            await asyncio.sleep(0.01)
    assert found.standbys == ()


async def test_without_a_standby_a_refilling_primary_is_not_ready() -> None:
    primary = FaultyIndex()
    index = FailoverIndex(primary)
    await search(index)
    primary.fault = FILLING

    for _ in range(2):
        with pytest.raises(NotReadyError, match="starting"):
            await search(index)


async def test_the_state_of_a_lost_primary_without_a_standby_is_an_error_in_time() -> None:
    with pytest.raises(DependencyError, match="it does not answer"):
        await FailoverIndex(FaultyIndex(HANGS)).status()


async def test_a_lost_embedder_elsewhere_is_noticed_without_a_standby() -> None:
    embedder = FaultyEmbedder(DependencyError("embedder", "its replica cannot be reached"))
    vectors = QuestionVectors(embedder, remote=True)

    for _ in range(2):
        with pytest.raises(DependencyError, match="cannot be reached"):
            await vectors.of(TENANT, "who?", soon())

    assert embedder.asked.count("who?") == 1
