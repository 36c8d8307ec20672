"""How a standby on a CPU waits: cold, and opened when it is asked; and what it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import DependencyError, NotReadyError
from serving.domain.items.records import ItemKind, segment_id
from serving.pipeline.index.standby import ColdEmbedder, ColdIndex, OnDemand, PunctualEmbedder
from serving.pipeline.inference.latency_model import FORGETTING
from serving.ports.embedding import QuestionEmbedder, Vector
from serving.ports.vector_index import IndexAnswer, WantedNeighbours, WholeIndex
from tests.fakes.meaning import EngineIndex, FakeEmbedder, InMemoryIndex, segment_row, unit
from tests.support.builders import TENANT, scope, segment
from tests.support.stepped_clock import SteppedClock
from tests.unit.pipeline.retrieval.retrieving import soon

FOR_EVER = 3600.0
ITEMS = [segment_id("1")]
TOKEN = ConsistencyToken.of("in-memory", [7])


class Opening:
    """Opens what it was given as often as it is asked to, and remembers what became of it."""

    def __init__(self, *, failures: int = 0) -> None:
        self.opened = 0
        self.closed = 0
        self._failures = failures

    @asynccontextmanager
    async def index(self) -> AsyncIterator[WholeIndex]:
        self._note()
        engine = InMemoryIndex()
        engine.apply([segment_row(segment("1"), unit(1))], [])
        try:
            yield EngineIndex(engine)
        finally:
            self.closed += 1

    @asynccontextmanager
    async def embedder(self) -> AsyncIterator[QuestionEmbedder]:
        self._note()
        yield FakeEmbedder()

    def _note(self) -> None:
        self.opened += 1
        if self.opened <= self._failures:
            raise DependencyError("embedder", "there is no folder")


async def search(index: ColdIndex) -> IndexAnswer:
    return await index.search(unit(1), WantedNeighbours(ItemKind.SEGMENT, scope(), 3), soon())


async def when_open(index: ColdIndex) -> IndexAnswer:
    async with asyncio.timeout(10):
        while True:
            try:
                return await search(index)
            except NotReadyError:
                await asyncio.sleep(0)


async def test_a_cold_index_holds_nothing_until_it_is_searched() -> None:
    opening = Opening()
    async with OnDemand(opening.index, FOR_EVER) as on_demand:
        index = ColdIndex(on_demand)
        status = await index.status()
        assert (status.ready, status.vector_count) == (False, 0)
        assert await index.count(TENANT, ITEMS) == 0
        assert await index.caught_up(TOKEN, soon())
        await asyncio.sleep(0)
        assert not opening.opened

        with pytest.raises(NotReadyError, match="index: it begins to be filled"):
            await search(index)
        found = await when_open(index)
        assert (await index.status()).ready
        assert await index.count(TENANT, ITEMS) == 1

    assert [each.item.id for each in found.candidates] == ["1"]
    assert (opening.opened, opening.closed) == (1, 1)


async def test_what_nobody_asks_any_more_is_let_go_and_opened_again() -> None:
    opening = Opening()
    async with OnDemand(opening.index, release_after_s=0.01) as on_demand:
        index = ColdIndex(on_demand)
        for times in (1, 2):
            on_demand.wanted()
            async with asyncio.timeout(10):
                while opening.closed < times:  # noqa: ASYNC110 - there is no event to wait for
                    await asyncio.sleep(0)
            assert await index.count(TENANT, ITEMS) == 0


async def test_what_could_not_be_opened_is_tried_again() -> None:
    opening = Opening(failures=1)
    async with OnDemand(opening.index, FOR_EVER) as on_demand:
        await when_open(ColdIndex(on_demand))

    assert opening.opened == 2


async def test_the_model_of_a_cold_embedder_is_loaded_when_it_is_asked() -> None:
    opening = Opening()
    async with OnDemand(opening.embedder, FOR_EVER) as on_demand:
        embedder = ColdEmbedder(on_demand)
        assert not opening.opened
        with pytest.raises(NotReadyError, match="embedder: the model is being loaded"):
            await embedder.embed_query("goa", soon())
        async with asyncio.timeout(10):
            while on_demand.opened is None:  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0)

        await embedder.embed_query("goa", soon())


# ---------------------------------------------------------------- in time


class TimedEmbedder(FakeEmbedder):
    """An embedder that takes so many seconds of a clock of its own, or until the deadline."""

    def __init__(self, clock: SteppedClock, seconds: float) -> None:
        super().__init__()
        self.asked = 0
        self.seconds = seconds
        self._clock = clock

    async def embed_query(self, text: str, deadline: Deadline) -> Vector:
        self.asked += 1
        left_s = deadline.remaining()
        self._clock.now += min(self.seconds, left_s)
        if self.seconds > left_s:
            raise TimeoutError
        return await super().embed_query(text, Deadline.after(60))


def punctual(seconds: float) -> tuple[PunctualEmbedder, TimedEmbedder, SteppedClock]:
    clock = SteppedClock()
    inside = TimedEmbedder(clock, seconds)
    return PunctualEmbedder(inside, clock), inside, clock


async def test_a_question_that_would_be_late_is_refused_with_what_it_would_take() -> None:
    embedder, inside, clock = punctual(seconds=0.8)
    await embedder.embed_query("goa", Deadline.after(2, clock))

    with pytest.raises(DependencyError) as refused:
        await embedder.embed_query("goa", Deadline.after(0.1, clock))

    assert str(refused.value) == ("embedder: it would take about 800 ms, and 100 ms are left")
    assert inside.asked == 1


async def test_how_long_it_takes_is_known_before_the_first_question() -> None:
    embedder, inside, clock = punctual(seconds=0.8)
    await embedder.measure()
    measured = inside.asked

    with pytest.raises(DependencyError, match="it would take about"):
        await embedder.embed_query("Who said hello to whom, and when?", Deadline.after(0.1, clock))

    assert inside.asked == measured


async def test_a_late_request_is_learned_from_too() -> None:
    embedder, inside, clock = punctual(seconds=0.8)
    with pytest.raises(TimeoutError):
        await embedder.embed_query("goa", Deadline.after(0.4, clock))

    with pytest.raises(DependencyError, match="it would take about 400 ms"):
        await embedder.embed_query("goa", Deadline.after(0.1, clock))

    assert inside.asked == 1


async def test_a_slow_spell_is_not_remembered_for_ever() -> None:
    embedder, inside, clock = punctual(seconds=0.8)
    await embedder.embed_query("goa", Deadline.after(2, clock))
    inside.seconds = 0.01

    refusals = 0
    while inside.asked == 1:
        try:
            await embedder.embed_query("goa", Deadline.after(0.1, clock))
        except DependencyError:
            refusals += 1

    assert 0.8 * FORGETTING**refusals <= 0.1


async def test_what_waits_before_a_question_counts_for_it() -> None:
    clock = SteppedClock()
    gate = asyncio.Event()

    class Gated(TimedEmbedder):
        async def embed_query(self, text: str, deadline: Deadline) -> Vector:
            if self.asked:
                await gate.wait()
            return await super().embed_query(text, deadline)

    embedder = PunctualEmbedder(Gated(clock, 0.1), clock)
    await embedder.embed_query("goa", Deadline.after(1, clock))
    first = asyncio.create_task(embedder.embed_query("goa", Deadline.after(1, clock)))
    await asyncio.sleep(0)

    with pytest.raises(DependencyError, match="it would take about 200 ms, and 150 ms are left"):
        await embedder.embed_query("goa", Deadline.after(0.15, clock))

    gate.set()
    await first
