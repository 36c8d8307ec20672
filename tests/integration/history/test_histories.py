"""What retrievals by any clocks find after any history, against a naive table of what was sent.

The stores are the one in memory and PostgreSQL, each with its legs; the index is the exact one,
and the graph the one in memory that Neo4j is held against.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import permutations
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.reads.access_log import PostgresAccessLog
from serving.adapters.vector_index import ExactIndex
from serving.domain.budget import Deadline
from serving.domain.items.records import (
    Fact,
    Item,
    ItemId,
    Segment,
    TenantName,
    fact_id,
    segment_id,
)
from serving.domain.questions.query import NO_FILTER
from serving.domain.ranking.leg_options import CandidatePool
from serving.domain.ranking.profile import LegSpec, Profile, Yields
from serving.pipeline.index.vector_space import VectorSpace
from serving.pipeline.retrieval.leg_runner import LegRunner
from serving.pipeline.retrieval.legs import DenseLeg, FactsLeg, GraphLeg, LexicalLeg, TemporalLeg
from serving.pipeline.retrieval.legs.leg import Leg
from serving.pipeline.retrieval.steps import RetrievalSteps, Traced
from serving.pipeline.retrieval.trace import Tracer
from serving.ports.access import AccessLog, Timeline
from serving.ports.graph import GraphChanges
from serving.ports.memory_store import Batch, Catalog, MemoryStore, Selector
from serving.ports.words import LexicalSearch
from tests.fakes.graph import InMemoryGraph
from tests.fakes.meaning import FAKE_MODEL, EngineIndex, FakeEmbedder, fact_row, segment_row, unit
from tests.fakes.pipeline import FixedConsistency, FixedDates
from tests.fakes.store import InMemoryStore
from tests.fakes.times import ALL, InMemoryAccessLog, InMemoryTimeline
from tests.fakes.words import InMemoryWords
from tests.support.builders import days, fact, query, scope, segment
from tests.support.examples import examples
from tests.support.naive_facts import Table, closes, held, start, walked

QUESTION = "Ann's boat"
"""Names one of the entities, and has a word of every segment."""

TODAY = datetime.now(UTC)
"""Segments are recorded when they are stored, which is now; so here all is around now."""

FACTS = Profile(
    name="facts",
    limit=100,
    fold_repeats=False,
    legs=(
        LegSpec(name="facts", depth=100, yields=Yields.FACTS),
        LegSpec(name="graph", depth=100, yields=Yields.FACTS),
    ),
)
SEGMENTS = Profile(
    name="segments",
    limit=100,
    fold_repeats=False,
    legs=(
        LegSpec(name="lexical", depth=100),
        LegSpec(name="dense", depth=100, pool=CandidatePool(recently_accessed=100)),
        LegSpec(name="temporal", depth=100),
        LegSpec(name="facts", depth=100),
        LegSpec(name="graph", depth=100),
    ),
)


def day(count: int) -> datetime:
    return TODAY + days(count)


# ---------------------------------------------------------------- what is asked


@dataclass(frozen=True)
class Stores:
    """The expected items, and the legs that find them."""

    store: MemoryStore
    catalog: Catalog
    lexical: LexicalSearch
    access: AccessLog
    timeline: Timeline


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.postgres)])
def stores(request: pytest.FixtureRequest) -> Stores:
    if request.param == "memory":
        memory = InMemoryStore()
        words, timeline = InMemoryWords(memory), InMemoryTimeline(memory)
        return Stores(memory, memory, words, InMemoryAccessLog(memory), timeline)
    adapters: Postgres = request.getfixturevalue("postgres")
    access = PostgresAccessLog(adapters.database)  # not opened: nothing is shown here
    return Stores(adapters.store, adapters.catalog, adapters.lexical, access, adapters.timeline)


class Question(NamedTuple):
    """By which clocks to ask; a number is the instant when that number of segments was recorded."""

    as_of: datetime
    known_at: datetime | int | None = None


class History:
    """One tenant's changes, applied to a store and to the table alike."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._tenant = TenantName(uuid.uuid4().hex)
        self._table = Table()
        self._recorded: dict[str, datetime] = {}

    async def change(self, change: list[Item] | ItemId) -> Tracer:
        """Writes items, or erases one. Returns what answers from the stores as they are then."""
        if isinstance(change, ItemId):
            self._table.erase(change)
            await self._stores.store.erase(self._tenant, Selector(items=(change,)))
        else:
            batch = list({item.item: item for item in change}.values())
            self._table.write(batch)
            await self._stores.store.write(Batch(self._tenant, batch))
        segments = await self._stores.catalog.list_segments(self._tenant, NO_FILTER, "", ALL)
        facts = await self._stores.catalog.list_facts(self._tenant, (), None, "", ALL)
        self._note_when_recorded(segments)
        return await self._retriever(segments, facts)

    def _note_when_recorded(self, segments: list[Segment]) -> None:
        """A segment is recorded when it is first stored, and not by an update."""
        stored = {one.id: one.created_at for one in segments}
        assert stored.keys() == self._table.segments.keys()
        self._recorded = {id_: self._recorded.get(id_) or at for id_, at in stored.items() if at}
        assert self._recorded == stored

    async def _retriever(self, segments: list[Segment], facts: list[Fact]) -> Tracer:
        tenant, stores = self._tenant, self._stores
        engine, graph = ExactIndex(FAKE_MODEL.dimension), InMemoryGraph()
        rows = [segment_row(one, unit(n), tenant=tenant) for n, one in enumerate(segments)]
        rows += [fact_row(one, unit(n), tenant=tenant) for n, one in enumerate(facts)]
        engine.apply(rows, [])
        await graph.apply(
            GraphChanges(
                segments=[(tenant, one) for one in segments],
                facts=[(tenant, one) for one in facts],
            )
        )
        legs: dict[str, Leg] = {
            "lexical": LexicalLeg(stores.lexical),
            "dense": DenseLeg(stores.access),
            "temporal": TemporalLeg(stores.timeline),
            "facts": FactsLeg(),
            "graph": GraphLeg(graph, FixedConsistency()),
        }
        steps = RetrievalSteps(
            legs=LegRunner(legs, FixedConsistency()),
            space=VectorSpace.of(FakeEmbedder(), EngineIndex(engine)),
            store=stores.store,
            access=stores.access,
            dates=FixedDates(),
        )
        return Tracer(steps)

    # ------------------------------------------------------------ what should be found

    async def check(self, tracer: Tracer, question: Question) -> None:
        """Compares what each leg finds and what is shown with what the table says."""
        known_at = self._instant(question.known_at)
        asked = query(QUESTION, scope=scope(self._tenant, as_of=question.as_of, known_at=known_at))
        facts = await tracer.trace(asked, FACTS, Deadline.after(30))
        segments = await tracer.trace(asked, SEGMENTS, Deadline.after(30))
        true = held(self._table.facts.values(), question.as_of, known_at)
        near = walked([self._table.facts[id_] for id_ in true], "Ann")
        said = self._said(question.as_of, known_at)

        assert self._found(facts) == {"facts": set(true), "graph": near}
        assert set(shown(facts)) == set(true)
        self._check_that_no_closed_fact_is_shown_with_its_closer(shown(facts), question.as_of)

        everywhere = dict.fromkeys(("lexical", "dense", "temporal"), said)
        alone = self._without_evidence(true)
        evidence = {"facts": said & self._cited(true) | alone, "graph": said & self._cited(near)}
        assert self._found(segments) == {**everywhere, **evidence}
        assert set(shown(segments)) == said | alone
        assert reasons(segments) <= set(true)

    def _instant(self, known_at: datetime | int | None) -> datetime | None:
        if not isinstance(known_at, int):
            return known_at
        instants = [day(-3), *sorted(self._recorded.values())]
        return instants[known_at % len(instants)]

    def _said(self, as_of: datetime, known_at: datetime | None) -> set[str]:
        """The segments that were said and recorded by then."""
        return {
            id_
            for id_, one in self._table.segments.items()
            if one.event_time <= as_of and (known_at is None or self._recorded[id_] <= known_at)
        }

    def _cited(self, facts: Iterable[str]) -> set[str]:
        return {cited for id_ in facts for cited in self._table.facts[id_].evidence}

    def _without_evidence(self, facts: Iterable[str]) -> set[str]:
        """The facts that no stored segment supports, which are found themselves."""
        stored = self._table.segments.keys()
        return {id_ for id_ in facts if stored.isdisjoint(self._table.facts[id_].evidence)}

    def _found(self, traced: Traced) -> dict[str, set[str]]:
        """The ids of each leg's candidates, but for segments that were cited and never written."""
        stored = self._table.facts.keys() | self._table.segments.keys()
        return {
            result.report.leg: {found.item.id for found in result.candidates} & stored
            for result in traced.results
        }

    def _check_that_no_closed_fact_is_shown_with_its_closer(
        self, shown: Iterable[str], as_of: datetime
    ) -> None:
        for closer, closed in permutations([self._table.facts[id_] for id_ in shown], 2):
            if closes(closer, closed):
                assert as_of < start(closer)


def shown(traced: Traced) -> list[str]:
    """The ids of the hits, best first."""
    return [hit.item.id for hit in traced.retrieval.hits]


def reasons(traced: Traced) -> set[str]:
    """The facts by which evidence was found."""
    found = [candidate for result in traced.results for candidate in result.candidates]
    return {id_ for candidate in found for id_ in candidate.facts}


# ---------------------------------------------------------------- histories

IDS, SAID = "abcd", "stu"
DAYS = st.integers(-2, 2).map(day)
SEGMENTS_SAID = st.builds(
    segment,
    st.sampled_from(SAID),
    st.sampled_from(["We had a boat.", "We had a boat then."]),
    event_time=DAYS,
)
FACTS_STATED = st.builds(
    fact,
    st.sampled_from(IDS),
    st.sampled_from(["Ann", "ann", "Bob"]),
    st.sampled_from(["lives in", "works in"]),
    st.sampled_from(["Bob", "Goa"]),
    recorded_at=DAYS,
    valid_from=st.none() | DAYS,
    valid_to=st.none() | DAYS,
    retracted_at=st.none() | DAYS,
    evidence=st.lists(st.sampled_from(SAID), max_size=2, unique=True).map(tuple),
    closes=st.lists(st.sampled_from(IDS), max_size=2, unique=True).map(tuple),
    single_valued=st.booleans(),
)
ERASED = st.sampled_from([*map(fact_id, IDS), *map(segment_id, SAID)])
CHANGES = st.lists(SEGMENTS_SAID | FACTS_STATED, min_size=1, max_size=5) | ERASED
QUESTIONS = st.builds(Question, DAYS, st.none() | DAYS | st.integers(0, len(SAID)))

SPOKEN = segment("s", "We had a boat.", event_time=day(-2))
OLD = fact("a", "Ann", "lives in", "Bob", recorded_at=day(-2), evidence=("s",))
FURTHER = fact("b", "Bob", "works in", "Goa", recorded_at=day(-2), evidence=("t",))
SPOKEN_OF_IT = segment("t", "We had a boat then.", event_time=day(-2))


def closer(id_: str, valid_from: int, recorded: int, retracted: int | None = None) -> Fact:
    """What ends `OLD`."""
    retracted_at = None if retracted is None else day(retracted)
    times = {"valid_from": day(valid_from), "recorded_at": day(recorded)}
    return fact(id_, "Bob", "left", "Goa", closes=("a",), retracted_at=retracted_at, **times)


WRITTEN: list[Item] = [SPOKEN, SPOKEN_OF_IT, OLD, FURTHER]


@settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    steps=st.lists(
        st.tuples(CHANGES, st.lists(QUESTIONS, min_size=1, max_size=4)), min_size=1, max_size=5
    )
)
@example(  # closed by what was known, and once more, further back, by what was not
    steps=[([*WRITTEN, closer("c", -1, 1), closer("d", -2, 2)], [Question(day(2), day(1))])]
)
@example(  # closed later than is asked for
    steps=[([*WRITTEN, closer("c", -1, 2)], [Question(day(2), day(1))])]
)
@example(  # closed as far as was known, and as of then, though that was retracted
    steps=[
        (
            [*WRITTEN, closer("c", -2, -2, retracted=2)],
            [Question(day(2), day(1)), Question(day(1)), Question(day(2))],
        )
    ]
)
async def test_retrieval_after_any_history_equals_a_table(
    stores: Stores, steps: list[tuple[list[Item] | ItemId, list[Question]]]
) -> None:
    history = History(stores)
    for change, questions in steps:
        retriever = await history.change(change)
        for question in questions:
            await history.check(retriever, question)
