"""Writes to an index, drawn at random, and the check that it finds what a reference finds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import strategies as st

from serving.domain.items.records import ItemId, ItemKind, TenantName, segment_id
from serving.domain.questions.query import Filter
from serving.domain.ranking.ranked_list import Candidate
from serving.ports.index_engine import IndexRow, Neighbours
from serving.ports.vector_index import IndexAnswer, WantedNeighbours
from tests.fakes.meaning import InMemoryIndex, fact_row, segment_row, unit
from tests.support.builders import TENANT, fact, scope, segment

TENANTS = [TENANT, TenantName("other")]
NUMBERS = st.integers(0, 39)
DIRECTIONS = st.integers(0, 5000)

Write = tuple[list[IndexRow], list[tuple[TenantName, ItemId]]]
"""Rows to put, after others were removed."""

Question = tuple[int, WantedNeighbours]
"""The number of a direction, and what is wanted of what lies there."""


@st.composite
def segment_rows(draw: st.DrawFn) -> IndexRow:
    """Of one to three vectors, or of none: there for filters alone."""
    directions = draw(st.lists(DIRECTIONS, max_size=3))
    return segment_row(
        segment(f"s{draw(NUMBERS)}", kind=draw(st.sampled_from(["turn", "note"]))),
        *(unit(number) for number in directions),
        tenant=draw(st.sampled_from(TENANTS)),
    )


@st.composite
def fact_rows(draw: st.DrawFn) -> IndexRow:
    """Of one vector, resting on up to two segments."""
    evidence = tuple(f"s{number}" for number in draw(st.lists(NUMBERS, max_size=2)))
    return fact_row(
        fact(f"f{draw(NUMBERS)}", "x", "is", "y", evidence=evidence),
        unit(draw(DIRECTIONS)),
        tenant=draw(st.sampled_from(TENANTS)),
    )


SEGMENTS = NUMBERS.map(lambda number: segment_id(f"s{number}"))

WRITES = st.tuples(
    st.lists(segment_rows() | fact_rows(), max_size=25),
    st.lists(st.tuples(st.sampled_from(TENANTS), SEGMENTS), max_size=8),
)

QUESTIONS = st.tuples(
    DIRECTIONS,
    st.builds(
        WantedNeighbours,
        st.sampled_from(ItemKind),
        st.builds(
            lambda tenant, kinds: scope(tenant=tenant, filter_=Filter(kinds=kinds)),
            st.sampled_from(TENANTS),
            st.sampled_from([(), ("turn",), ("note",)]),
        ),
        st.integers(1, 30),
        st.none() | st.lists(SEGMENTS),
    ),
)


def assert_is_what_is_nearest(
    found: Neighbours | IndexAnswer, reference: InMemoryIndex, question: Question
) -> None:
    """Asserts that no row is nearer than what was found; of equals any may have been."""
    number, wanted = question
    all_ = reference.search(unit(number), replace(wanted, depth=10_000))
    score_of = {each.item: each.score for each in all_.candidates}
    nearest = all_.candidates[: wanted.depth]
    assert _scores(found.candidates) == pytest.approx(_scores(nearest), abs=1e-5)
    assert len({each.item for each in found.candidates}) == len(found.candidates)
    for each in found.candidates:
        assert each.score == pytest.approx(score_of[each.item], abs=1e-5)
        if wanted.kind is ItemKind.FACT:
            assert found.evidence.get(each.item.id) == all_.evidence.get(each.item.id)


def _scores(candidates: list[Candidate]) -> list[float]:
    return [each.score for each in candidates]
