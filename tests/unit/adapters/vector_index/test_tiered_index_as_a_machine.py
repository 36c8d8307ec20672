"""The tiered index compared with a full scan, as a hypothesis state machine."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from serving.adapters.vector_index import TieredIndex
from serving.domain.items.records import ItemKind
from serving.domain.questions.query import Filter
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

    @rule(write=WRITES)
    def is_written_to_while_lists_are_trained(self, write: Write) -> None:
        def once() -> None:
            self.library.on_train = lambda: None
            self.writes(write)

        self.library.on_train = once
        self.engine.maintain()

    @rule(write=WRITES)
    def is_written_to_while_lists_are_extended(self, write: Write) -> None:
        def once() -> None:
            self.library.on_extend = lambda: None
            self.writes(write)

        self.library.on_extend = once
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
