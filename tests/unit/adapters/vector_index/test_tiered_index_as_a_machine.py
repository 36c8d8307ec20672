"""The tiered index compared with a full scan, as a hypothesis state machine."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from serving.adapters.vector_index import TieredIndex
from serving.domain.items.records import ItemKind, TenantName, segment_id
from serving.domain.questions.query import Filter
from serving.ports.index_engine import IndexRow, Neighbours
from serving.ports.vector_index import WantedNeighbours
from tests.fakes.lists.eager_lists import LISTS_AT_ONCE, WatchedLibrary
from tests.fakes.meaning import FAKE_MODEL, InMemoryIndex, segment_row, unit
from tests.fakes.simulation.random_rows import (
    QUESTIONS,
    TENANTS,
    WRITES,
    Question,
    Write,
    assert_is_what_is_nearest,
)
from tests.support.builders import TENANT, scope, segment


class Machine(RuleBasedStateMachine):
    """All lists are read, so both must find the same."""

    def __init__(self) -> None:
        super().__init__()
        self.library = WatchedLibrary()
        self.engine = TieredIndex(FAKE_MODEL.dimension, self.library, LISTS_AT_ONCE)
        self.reference = InMemoryIndex()
        self.generations = dict.fromkeys(TENANTS, 0)

    @rule(write=WRITES)
    def writes(self, write: Write) -> None:
        self.engine.apply(*write)
        self.reference.apply(*write)

    @rule()
    def is_maintained(self) -> None:
        self.engine.maintain()

    @rule(write=WRITES, during=st.sampled_from(["on_train", "on_extend"]))
    def is_written_to_while_lists_are_made(self, write: Write, during: str) -> None:
        def once() -> None:
            setattr(self.library, during, lambda: None)
            self.writes(write)

        setattr(self.library, during, once)
        self.engine.maintain()

    @rule(question=QUESTIONS)
    def is_asked(self, question: Question) -> None:
        number, wanted = question

        found = self.engine.search(unit(number), wanted)

        assert_is_what_is_nearest(found, self.reference, question)
        assert found.generation >= self.generations[wanted.scope.tenant]
        self.generations[wanted.scope.tenant] = found.generation

    @invariant()
    def holds_the_same(self) -> None:
        assert self.engine.vector_count == self.reference.vector_count
        assert sum(tier.rows for tier in self.engine.tiers()) == self.reference.vector_count


TestTieredIndex = Machine.TestCase
TestTieredIndex.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


def test_the_machine_uses_lists() -> None:
    machine = Machine()
    rows = [segment_row(segment(f"s{number}"), unit(number)) for number in range(40)]
    machine.writes((rows, []))
    machine.is_maintained()

    for kinds in ((), ("turn",)):
        in_scope = scope(tenant=TENANT, filter_=Filter(kinds=kinds))
        machine.is_asked((1, WantedNeighbours(ItemKind.SEGMENT, in_scope, 10)))

    assert machine.library.search_count == 2
    assert np.all([len(lists.slots) == 40 for lists in machine.library.made])


# ---------------------------------------------------------------- under load


TOGETHER = 8
"""Segments that are always written in one change."""

VERSIONS = 100
BACKGROUND = 110
QUERY = unit(1)
WANTED = WantedNeighbours(ItemKind.SEGMENT, scope(), TOGETHER)


def at_cosine(cosine: float) -> np.ndarray:
    """A vector at a given cosine to the query, which identifies it."""
    side = unit(2) - float(unit(2) @ QUERY) * QUERY
    side /= np.linalg.norm(side)
    return np.asarray(cosine * QUERY + np.sqrt(1 - cosine**2) * side, np.float32)


def row(number: int, version: int) -> IndexRow:
    cosine = 0.99 - 0.001 * (TOGETHER * version + number)
    return segment_row(segment(f"s{number}"), at_cosine(cosine))


def version_of(answer: Neighbours) -> set[int]:
    """The versions of the segments in an answer, read from their scores."""
    return {
        round((0.99 - each.score) / 0.001 - int(each.item.id[1:])) // TOGETHER
        for each in answer.candidates
    }


class Answers:
    def __init__(self, engine: TieredIndex) -> None:
        self._engine = engine
        self.versions: list[set[int]] = []
        self.generations: list[int] = []

    def ask(self) -> None:
        answer = self._engine.search(QUERY, WANTED)
        self.versions.append(version_of(answer))
        self.generations.append(answer.generation)


def test_no_search_sees_a_part_of_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    library = WatchedLibrary()
    engine = TieredIndex(FAKE_MODEL.dimension, library, replace(LISTS_AT_ONCE, min_tail=20))
    caller = Answers(engine)
    publish = engine.publish

    def publish_and_ask(tenant: TenantName) -> None:
        publish(tenant)
        caller.ask()

    monkeypatch.setattr(engine, "publish", publish_and_ask)
    for version in range(3):
        engine.apply([row(number, version) for number in range(TOGETHER)], [])
    assert caller.versions == [{0}, {1}, {2}]


def test_answers_during_a_swap_are_of_one_moment() -> None:
    library = WatchedLibrary()
    engine = TieredIndex(FAKE_MODEL.dimension, library, replace(LISTS_AT_ONCE, min_tail=20))
    background = [
        segment_row(segment(f"b{number}"), -at_cosine(0.2 + number / 1000))
        for number in range(BACKGROUND)
    ]
    engine.apply([*background, *(row(number, 0) for number in range(TOGETHER))], [])
    callers = [Answers(engine), Answers(engine)]
    ended, rounds = threading.Event(), threading.Semaphore(0)

    def repeat(work: Callable[[], None]) -> None:
        while not ended.is_set():
            work()

    def maintain() -> None:
        engine.maintain()
        rounds.release()

    with ThreadPoolExecutor(3) as threads:
        running = [threads.submit(repeat, each) for each in (maintain, *(c.ask for c in callers))]
        try:
            for version in range(1, VERSIONS):
                gone = [(TENANT, segment_id(f"b{version}"))]
                engine.apply([row(number, version) for number in range(TOGETHER)], gone)
                rounds.acquire(timeout=10)
        finally:
            ended.set()
    for each in running:
        each.result()

    assert len(library.made) >= 3
    for caller in callers:
        assert {len(versions) for versions in caller.versions} == {1}
        seen = [version for versions in caller.versions for version in versions]
        assert seen == sorted(seen)
        assert caller.generations == sorted(caller.generations)
    last = engine.search(QUERY, WANTED)
    assert version_of(last) == {VERSIONS - 1}
