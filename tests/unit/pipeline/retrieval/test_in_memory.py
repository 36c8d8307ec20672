"""Answers from memory: no store is asked, and no leg that is at hand becomes a task."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from serving.adapters.resident import TenantsInMemory
from serving.domain.budget import Deadline
from serving.domain.questions.query import Query
from serving.domain.ranking.leg_options import WordsSearch
from serving.domain.ranking.profile import LegSpec, Profile
from serving.domain.ranking.ranked_list import Candidate
from serving.pipeline.index.vector_space import VectorSpace
from serving.pipeline.retrieval import legs
from serving.pipeline.retrieval.leg_runner import LegState
from serving.pipeline.retrieval.legs.leg import LegAnswer, LegRequest
from serving.pipeline.retrieval.retrieve import Retriever
from serving.pipeline.retrieval.steps import Retrieval
from tests.fakes.graph import InMemoryGraph
from tests.fakes.meaning import EngineIndex, FakeEmbedder, InMemoryIndex, segment_row, unit
from tests.fakes.pipeline import FixedConsistency, RecordingAccess
from tests.fakes.resident_feed import InMemoryFeed
from tests.fakes.words import InMemoryWords
from tests.support.builders import TENANT, batch_of, fact, query, segment
from tests.unit.pipeline.retrieval.retrieving import ReadStore, hit_ids, soon, states, steps

ITEMS = (
    segment("a", "We sailed to Goa.", entities=("Mara",)),
    segment("b", "It rained.", speaker="Mara"),
    fact("f", "Mara", "loves", "Goa", evidence=("a",)),
)
WORDS_AND_GRAPH = Profile(
    name="p", legs=(LegSpec(name="lexical"), LegSpec(name="graph")), fold_repeats=False
)
ASKED = query("Does Mara like Goa?")


class CountedWords(InMemoryWords):
    asked = 0

    async def search(
        self, query: Query, words: WordsSearch, depth: int, enough: int, deadline: Deadline
    ) -> list[Candidate]:
        self.asked += 1
        return await super().search(query, words, depth, enough, deadline)


class World:
    """A store, what is in memory of it, and the legs over both."""

    def __init__(self) -> None:
        self.store = ReadStore()
        self.feed = InMemoryFeed()
        self.view = TenantsInMemory(self.feed, 2**30)
        self.words = CountedWords(self.store)
        self.legs = {
            "lexical": legs.LexicalLeg(self.words),
            "graph": legs.GraphLeg(InMemoryGraph(), FixedConsistency()),
        }

    async def load(self) -> None:
        await self.store.write(batch_of(*ITEMS))
        self.feed.put(*ITEMS)
        await self.view.load(TENANT, Deadline.after(60))

    async def ask(self, profile: Profile = WORDS_AND_GRAPH) -> Retrieval:
        answering = Retriever(steps(self.store, self.legs, view=self.view), RecordingAccess())
        return await answering.retrieve(ASKED, profile, soon())


async def test_tenant_in_memory_is_answered_without_the_stores() -> None:
    world = World()
    await world.load()

    answer = await world.ask()

    assert hit_ids(answer) == ["a", "b"]
    assert all(report.in_memory for report in answer.reports)
    assert (world.words.asked, world.store.reads) == (0, [])


async def test_tenant_with_unapplied_writes_asks_the_stores() -> None:
    world = World()
    await world.load()
    world.feed.put(segment("c"))

    answer = await world.ask()

    assert not any(report.in_memory for report in answer.reports)
    assert world.words.asked == 1
    assert world.store.reads


async def test_profile_can_leave_memory_out() -> None:
    world = World()
    await world.load()

    answer = await world.ask(replace(WORDS_AND_GRAPH, in_memory=False))

    assert not any(report.in_memory for report in answer.reports)
    assert world.words.asked == 1


async def test_late_leg_in_memory_times_out() -> None:
    world = World()
    await world.load()
    answering = steps(world.store, world.legs, view=world.view)

    results = await answering.run_legs(ASKED, WORDS_AND_GRAPH, Deadline.after(0))

    assert [each.report.state for each in results] == [LegState.TIMED_OUT] * 2


class NotedDense(legs.DenseLeg):
    """Notes the task in which it searches."""

    task: asyncio.Task[object] | None = None

    async def find(self, request: LegRequest) -> LegAnswer:
        self.task = asyncio.current_task()
        return await super().find(request)


@pytest.mark.parametrize("is_here", [True, False])
async def test_leg_at_hand_needs_no_task(*, is_here: bool) -> None:
    engine = InMemoryIndex()
    engine.apply([segment_row(segment("a"), unit(1))], [])
    make = VectorSpace.here if is_here else VectorSpace.of
    leg = NotedDense(RecordingAccess())
    world = World()
    await world.load()
    answering = steps(world.store, {"dense": leg}, space=make(FakeEmbedder(), EngineIndex(engine)))
    profile = Profile(name="p", legs=(LegSpec(name="dense", least_score=-1.0),))

    found = (await answering.run(ASKED, profile, soon())).retrieval

    assert states(found) == {"dense": LegState.OK}
    assert (leg.task is asyncio.current_task()) == is_here
