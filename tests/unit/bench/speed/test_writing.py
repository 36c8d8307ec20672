from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from bench.harness.collection import Collection, Memory
from bench.harness.connections import Connections, connected, connections_for
from bench.harness.writing import BATCH_ITEMS, BatchLoader, measure_projection
from bench.speed.ingest import (
    LEGS,
    MARK_TENANT,
    MARKS,
    SINGLE_TENANT,
    SINGLES,
    WARM_UP,
    mark_of,
    measure_singles,
    measure_visibility,
    only,
)
from tests.fakes.service import running
from tests.unit.bench.quality.fake_memory import FakeMemory
from trivium.values import Fact, Segment


def silent(_count: int = 1) -> None:
    pass


def segments(count: int) -> list[Segment]:
    return [Segment(id=f"s{number}", text=f"Number {number}.") for number in range(count)]


@pytest.fixture
def memory() -> Iterator[FakeMemory]:
    memory = FakeMemory()
    with running(memory):
        yield memory


@asynccontextmanager
async def connections_to(memory: FakeMemory) -> AsyncIterator[Connections]:
    async with connected(memory.address, 2) as connections:
        yield connections


@pytest.mark.parametrize(("in_flight", "count"), [(1, 1), (8, 1), (9, 2), (32, 4), (1000, 8)])
def test_no_connection_carries_more_calls_than_a_proxy_allows(in_flight: int, count: int) -> None:
    assert connections_for(in_flight) == count


async def test_single_segments_are_written_one_by_one_and_forgotten(memory: FakeMemory) -> None:
    async with connections_to(memory) as connections:
        result = await measure_singles(connections, segments(SINGLES + WARM_UP + 50), silent)

    assert set(memory.written) == {(SINGLE_TENANT, 1)}
    assert len(memory.written) == SINGLES + WARM_UP
    assert result.n == SINGLES
    assert SINGLE_TENANT not in memory.segments


async def test_a_collection_is_written_in_batches_of_one_tenant_facts_last(
    memory: FakeMemory,
) -> None:
    fact = Fact(id="f", subject="a", relation="knows", object="b")
    collection = Collection(
        name="c",
        memories={"t": Memory(segments(BATCH_ITEMS + 1), [fact]), "u": Memory(segments(2))},
        queries=[],
    )

    async with connections_to(memory) as connections:
        loader = BatchLoader(connections, silent)
        results = await loader.load(collection)

    assert memory.written == [("t", BATCH_ITEMS), ("t", 1), ("u", 2), ("t", 1)]
    assert [(result.parameters["kind"], result.n) for result in results] == [
        ("segments", BATCH_ITEMS + 3),
        ("facts", 1),
    ]
    assert results[0].measured["outcomes"] == {"created": BATCH_ITEMS + 3}
    assert loader.tokens == {"t": "after-t", "u": "after-u"}


async def test_a_collection_without_facts_has_no_result_for_them(memory: FakeMemory) -> None:
    collection = Collection(name="c", memories={"t": Memory(segments(3))}, queries=[])

    async with connections_to(memory) as connections:
        results = await BatchLoader(connections, silent).load(collection)

    assert [result.parameters["kind"] for result in results] == ["segments"]


async def test_the_projections_are_waited_for_until_nothing_is_pending_or_stale() -> None:
    collection = Collection(name="c", memories={"t": Memory(segments(3))}, queries=[])
    memory = FakeMemory(stale_answers=1, pending_answers=2)

    with running(memory):
        async with connections_to(memory) as connections:
            await measure_projection(connections, collection, {"t": "token"}, since=0.0)

    assert [request.consistency_token for request in memory.asked] == ["token"] * 2


async def test_each_leg_is_asked_alone_until_it_finds_what_was_written(memory: FakeMemory) -> None:
    async with connections_to(memory) as connections:
        results = await measure_visibility(connections, silent)

    assert [result.parameters["leg"] for result in results] == list(LEGS)
    assert all(result.n == MARKS and not result.errors for result in results)
    asked_alone = {
        frozenset(override.leg for override in request.leg_overrides) for request in memory.asked
    }
    assert asked_alone == {frozenset({*LEGS, "related"}) - {leg} for leg in LEGS}
    assert all(request.consistency_token == f"after-{MARK_TENANT}" for request in memory.asked)
    assert MARK_TENANT not in memory.segments


def test_a_mark_is_a_fact_on_a_segment_of_entities_of_its_own() -> None:
    (first, fact), (second, _) = mark_of(1), mark_of(2)

    assert fact.evidence == (first.id,)
    assert {fact.subject, fact.object} == set(first.entities)
    assert not set(first.entities) & set(second.entities)


def test_to_ask_one_leg_the_others_are_turned_off() -> None:
    assert {leg: change.weight for leg, change in only("dense").items()} == {
        "lexical": 0,
        "facts": 0,
        "graph": 0,
        "related": 0,
    }
