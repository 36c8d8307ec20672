"""What a twin on a CPU answers in the place of, when, and what is said of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
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
from serving.domain.records import ItemId, ItemKind, TenantName, segment_id
from serving.pipeline.asking import LegState
from serving.pipeline.failover import (
    CHECK_S,
    Failover,
    FailoverEmbeddedSearch,
    FailoverEmbedder,
    FailoverIndex,
    FailoverSearch,
    questions_of,
    ready_index,
)
from serving.pipeline.legs import DenseLeg, Leg
from serving.pipeline.semantic import EmbeddedSearch
from serving.pipeline.sharding import ShardedIndex
from serving.pipeline.spaces import VectorSpace, VectorSpaces
from serving.ports import IndexAnswer, IndexStatus, Vector, VectorLike, Vectors, WantedNeighbours
from tests.builders import TENANT, query, scope, segment
from tests.fake_meaning import EngineIndex, FakeEmbedder, InMemoryIndex, segment_row, unit
from tests.fakes import FixedLeg, RecordingAccess
from tests.unit.pipeline.retrieving import retriever, soon, store_of
from tests.unit.pipeline.test_retrieve import TWO_LEGS

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
    """An index that fails as it is told: `fault` is raised, and `HANGS` answers nobody."""

    def __init__(self, fault: Fault = None) -> None:
        engine = InMemoryIndex()
        engine.apply([segment_row(segment(name), unit(int(name))) for name in NAMES], [])
        super().__init__(engine)
        self.fault = fault
        self.asked = 0
        self.cancelled = 0
        self.seen = True

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

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        await self._fail()
        return await super().count(tenant, items)

    async def caught_up(self, token: ConsistencyToken, deadline: Deadline) -> bool:
        await self._fail()
        return self.seen

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
    """An embedder that fails as it is told."""

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
    return await index.search(unit(1), WANTED, Deadline.after(seconds))


async def is_back(index: FailoverIndex) -> None:
    """Asks until the primary answers."""
    async with asyncio.timeout(10):
        while (await search(index)).twins:  # noqa: ASYNC110 - questions alone find it out
            await asyncio.sleep(0.01)


# ---------------------------------------------------------------- who answers


@pytest.mark.parametrize("fault", [LOST, GONE])
async def test_the_twin_answers_for_a_primary_that_failed_and_says_so(fault: Exception) -> None:
    primary, twin = FaultyIndex(), FaultyIndex()
    index = FailoverIndex(primary, twin)
    right = await search(index)

    primary.fault = fault
    answer = await search(index)

    assert (right.twins, answer.twins) == ((), ("index",))
    assert answer.candidates == right.candidates


async def test_a_primary_that_says_nothing_leaves_the_twin_enough_of_the_time() -> None:
    primary, twin = FaultyIndex(HANGS), FaultyIndex()

    answer = await search(FailoverIndex(primary, twin), seconds=1)

    assert answer.twins == ("index",)
    await asyncio.sleep(0)
    assert primary.cancelled, "nobody waits for it any more"


async def test_while_the_primary_is_away_no_question_waits_for_it() -> None:
    primary, twin = FaultyIndex(GONE), FaultyIndex()
    index = FailoverIndex(primary, twin)
    await search(index)

    primary.fault = HANGS
    answers = await asyncio.gather(*(search(index) for _ in range(5)))

    assert primary.asked == 1
    assert all(answer.twins for answer in answers)


async def test_the_primary_is_asked_again_once_it_says_that_it_is_back() -> None:
    primary, twin = FaultyIndex(GONE), FaultyIndex()
    index = FailoverIndex(primary, twin)
    await search(index)

    primary.fault = None
    await is_back(index)

    asked = twin.asked
    await search(index)
    assert twin.asked == asked


async def test_one_that_is_being_filled_again_is_not_back_yet() -> None:
    primary, twin = FaultyIndex(), FaultyIndex()
    index = FailoverIndex(primary, twin)
    await search(index)
    for fault in (GONE, FILLING):
        primary.fault = fault
        for _ in range(3):
            assert (await search(index)).twins == ("index",)

    primary.fault = None
    await is_back(index)


async def test_one_that_says_that_it_does_not_answer_yet_is_not_asked() -> None:
    asked, checked = 0, asyncio.Event()

    async def primary(until: Deadline) -> str:
        nonlocal asked
        asked += 1
        raise GONE

    async def twin(until: Deadline) -> str:
        return "twin"

    async def check(until: Deadline) -> bool:
        checked.set()
        return False

    failover = Failover("index", check)
    await failover.ask(primary, twin, soon())
    await failover.ask(primary, twin, soon())
    await checked.wait()
    await asyncio.sleep(0)
    await failover.ask(primary, twin, soon())

    assert asked == 1


async def test_one_that_is_being_filled_for_the_first_time_is_no_loss() -> None:
    twin = FaultyIndex()

    with pytest.raises(NotReadyError, match="starting"):
        await search(FailoverIndex(FaultyIndex(FILLING), twin))

    assert not twin.asked


async def test_one_that_waits_for_a_write_and_says_that_it_is_well_is_waited_for() -> None:
    primary, twin = WaitingIndex(), FaultyIndex()
    index = FailoverIndex(primary, twin)

    asked = asyncio.create_task(search(index, seconds=1))
    await primary.was_asked_how_it_is.wait()
    primary.released.set()

    assert (await asked).twins == ()
    assert not twin.asked


async def test_what_is_wrong_with_a_question_or_a_full_queue_is_no_loss() -> None:
    for fault in (ValueError("dimensions"), OverloadedError("the embedder's queue")):
        twin = FaultyIndex()
        with pytest.raises(type(fault)):
            await search(FailoverIndex(FaultyIndex(fault), twin))
        assert not twin.asked


async def test_without_either_both_reasons_are_told() -> None:
    for primary, twin, kind in (
        (GONE, FILLING, DependencyError),
        (GONE, LOST, DependencyError),
    ):
        with pytest.raises(kind) as told:
            await search(FailoverIndex(FaultyIndex(primary), FaultyIndex(twin)))
        assert str(told.value) == f"index: {primary.why}; its twin: {twin.why}"
        assert not isinstance(told.value, NotReadyError)


async def test_where_both_are_being_filled_the_leg_is_skipped_and_not_broken() -> None:
    primary = FaultyIndex()
    index = FailoverIndex(primary, FaultyIndex(FILLING))
    await search(index)

    primary.fault = FILLING
    with pytest.raises(NotReadyError, match="starting; its twin: starting"):
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
    primaries, twins = (
        [FaultyIndex() for _ in range(shards)],
        [FaultyIndex() for _ in range(shards)],
    )
    index = ShardedIndex([FailoverIndex(*pair) for pair in zip(primaries, twins, strict=True)])
    for primary_fault, twin_fault, asked, depth in steps:
        primaries[0].fault, twins[0].fault = primary_fault, twin_fault
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


async def test_a_write_is_seen_when_both_have_seen_it() -> None:
    token = ConsistencyToken.of("in-memory", [7])
    late = FaultyIndex()
    late.seen = False

    assert await FailoverIndex(FaultyIndex(), FaultyIndex()).caught_up(token, soon())
    assert not await FailoverIndex(FaultyIndex(), late).caught_up(token, soon())
    assert not await FailoverIndex(late, FaultyIndex()).caught_up(token, soon())


async def test_the_state_is_the_primarys_or_the_twins_with_the_reason() -> None:
    primary, twin = FaultyIndex(), FaultyIndex()
    index = FailoverIndex(primary, twin)
    well = await index.status()

    primary.fault = GONE
    stood_in_for = await index.status()
    twin.fault = FILLING
    neither = await index.status()

    assert (well.ready, well.reason) == (True, "")
    assert stood_in_for.ready
    assert stood_in_for.reason == "its replica cannot be reached; its twin on the CPU answers"
    assert not neither.ready
    assert neither.reason == "its replica cannot be reached; its twin: starting"


# ---------------------------------------------------------------- embedding


async def test_questions_are_embedded_by_the_twin_and_documents_by_nobody() -> None:
    primary, twin = FaultyEmbedder(), FaultyEmbedder()
    embedder = FailoverEmbedder(primary, twin)
    right = await embedder.embed("goa", soon())

    primary.fault = DeviceLostError("embedder", "the device was lost")
    made = await embedder.embed("goa", soon())

    assert (right.by_twin, made.by_twin) == (False, True)
    assert np.array_equal(made.vector, right.vector)
    with pytest.raises(DeviceLostError):
        await embedder.embed_documents(["goa"])


async def test_a_question_that_the_twin_embedded_is_the_primarys_again_once_that_is_back() -> None:
    primary = FaultyEmbedder(GONE)
    questions = questions_of(FailoverEmbedder(primary, FakeEmbedder()))
    assert (await questions.of("goa", soon())).by_twin

    primary.fault = None
    async with asyncio.timeout(10):
        while (await questions.of("goa", soon())).by_twin:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    asked = len(primary.asked)
    await questions.of("goa", soon())
    assert len(primary.asked) == asked, "that one is kept"


def embedding(embedder: FailoverEmbedder, index: FailoverIndex) -> VectorSpaces:
    """A space that is asked with the text, so that who embedded it can be told."""
    search = FailoverEmbeddedSearch(questions_of(embedder), index)
    return VectorSpaces(VectorSpace(embedder, index, search))


@pytest.mark.parametrize(
    ("embedder_fault", "index_fault", "reason"),
    [
        (None, None, ""),
        (None, GONE, "cpu: index"),
        (GONE, None, "cpu: embedder"),
        (GONE, GONE, "cpu: embedder and index"),
    ],
)
async def test_a_leg_says_which_of_its_parts_the_cpu_stood_in_for(
    embedder_fault: Fault, index_fault: Fault, reason: str
) -> None:
    spaces = embedding(
        FailoverEmbedder(FaultyEmbedder(embedder_fault), FakeEmbedder()),
        FailoverIndex(FaultyIndex(index_fault), FaultyIndex()),
    )

    legs: dict[str, Leg] = {"lexical": FixedLeg("1"), "dense": DenseLeg(RecordingAccess())}
    answer = await retriever(await store_of(segment("1")), legs, spaces=spaces).retrieve(
        query("?"), TWO_LEGS, soon()
    )

    report = answer.reports[1]
    assert (report.state, report.reason) == (LegState.OK, reason)


async def test_a_leg_whose_question_nobody_can_embed_in_time_failed_for_the_embedder() -> None:
    too_slow = DependencyError("embedder", "it would take about 900 ms, and 40 ms are left")
    spaces = embedding(
        FailoverEmbedder(FaultyEmbedder(GONE), FaultyEmbedder(too_slow)),
        FailoverIndex(FaultyIndex(), FaultyIndex()),
    )

    legs: dict[str, Leg] = {"lexical": FixedLeg("1"), "dense": DenseLeg(RecordingAccess())}
    answer = await retriever(await store_of(segment("1")), legs, spaces=spaces).retrieve(
        query("?"), TWO_LEGS, soon()
    )

    report = answer.reports[1]
    assert report.state is LegState.FAILED
    assert report.reason == (
        "embedder: its replica cannot be reached; its twin: "
        "it would take about 900 ms, and 40 ms are left"
    )


# ---------------------------------------------------------------- both in one place


async def test_what_embeds_and_searches_in_one_place_is_stood_in_for_as_a_whole() -> None:
    both = FaultyIndex()
    primary = EmbeddedSearch(FakeEmbedder(), both)
    embedder = FailoverEmbedder(FaultyEmbedder(GONE), FakeEmbedder())
    twin = FailoverEmbeddedSearch(questions_of(embedder), FaultyIndex())
    search = FailoverSearch(primary, ready_index(both), twin)
    question = ("?", WANTED, soon())
    right = await search.search(*question)

    both.fault = LOST
    answer = await search.search(*question)

    assert (right.twins, answer.twins) == ((), ("embedder", "index"))
    assert answer.candidates == right.candidates


async def test_with_little_time_a_silent_primary_is_found_out_by_those_that_come_later() -> None:
    """Nobody can tell within milliseconds; what is asked meanwhile goes on, and then tells."""
    primary, twin = FaultyIndex(HANGS), FaultyIndex()
    index = FailoverIndex(primary, twin)

    async def asked() -> bool:
        try:
            async with asyncio.timeout(0.05):
                return bool((await search(index, seconds=0.05)).twins)
        except TimeoutError:
            return False

    assert not await asked()
    assert not twin.asked
    async with asyncio.timeout(20 * CHECK_S):
        while not await asked():
            pass
