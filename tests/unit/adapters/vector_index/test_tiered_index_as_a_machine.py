"""The tiered index against a reference that asks every row, through every order of events."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from serving.adapters.vector_index import TieredIndex
from serving.domain.query import Filter
from serving.domain.records import ItemId, ItemKind, TenantName, segment_id
from serving.ports import IndexRow
from tests.builders import TENANT, fact, scope, segment
from tests.eager_lists import LISTS_AT_ONCE, WatchedLibrary
from tests.fake_meaning import FAKE_MODEL, InMemoryIndex, fact_row, segment_row, unit

TENANTS = [TENANT, TenantName("other")]
NUMBERS = st.integers(0, 39)

Write = tuple[list[IndexRow], list[tuple[TenantName, ItemId]]]


@st.composite
def segment_rows(draw: st.DrawFn) -> IndexRow:
    directions = draw(st.lists(st.integers(0, 5000), min_size=1, max_size=3))
    return segment_row(
        segment(f"s{draw(NUMBERS)}", kind=draw(st.sampled_from(["turn", "note"]))),
        *(unit(number) for number in directions),
        tenant=draw(st.sampled_from(TENANTS)),
    )


@st.composite
def fact_rows(draw: st.DrawFn) -> IndexRow:
    evidence = tuple(f"s{number}" for number in draw(st.lists(NUMBERS, max_size=2)))
    return fact_row(
        fact(f"f{draw(NUMBERS)}", "x", "is", "y", evidence=evidence),
        unit(draw(st.integers(0, 5000))),
        tenant=draw(st.sampled_from(TENANTS)),
    )


REMOVALS = st.tuples(st.sampled_from(TENANTS), NUMBERS.map(lambda number: segment_id(f"s{number}")))
WRITES = st.tuples(
    st.lists(segment_rows() | fact_rows(), max_size=25), st.lists(REMOVALS, max_size=8)
)


class Machine(RuleBasedStateMachine):
    """Every list is probed, so that both must find the same."""

    def __init__(self) -> None:
        super().__init__()
        self.library = WatchedLibrary(probe_all=True)
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

    @rule(
        number=st.integers(0, 5000),
        kind=st.sampled_from(ItemKind),
        tenant=st.sampled_from(TENANTS),
        kinds=st.sampled_from([(), ("turn",), ("note",)]),
        depth=st.integers(1, 30),
        only=st.none() | st.lists(NUMBERS.map(lambda number: segment_id(f"s{number}"))),
    )
    def is_asked(
        self,
        number: int,
        kind: ItemKind,
        tenant: TenantName,
        kinds: tuple[str, ...],
        depth: int,
        only: list[ItemId] | None,
    ) -> None:
        in_scope = scope(tenant=tenant, filter_=Filter(kinds=kinds))

        found = self.engine.search(unit(number), kind, in_scope, depth, only)

        wanted = self.reference.search(unit(number), kind, in_scope, 10_000, only)
        scores = {each.item: each.score for each in wanted.candidates}
        best = [each.score for each in wanted.candidates[:depth]]
        assert [each.score for each in found.candidates] == pytest.approx(best, abs=1e-5)
        for each in found.candidates:
            assert each.score == pytest.approx(scores[each.item], abs=1e-5)
            if kind is ItemKind.FACT:
                assert found.evidence[each.item.id] == wanted.evidence[each.item.id]
        assert len({each.item for each in found.candidates}) == len(best)
        assert found.generation >= self.generations[tenant]
        self.generations[tenant] = found.generation

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

    machine.is_asked(1, ItemKind.SEGMENT, TENANT, (), 10, None)
    machine.is_asked(1, ItemKind.SEGMENT, TENANT, ("turn",), 10, None)

    assert machine.library.search_count == 2
    assert np.all([lists.list_sizes().sum() == 40 for lists in machine.library.made])
