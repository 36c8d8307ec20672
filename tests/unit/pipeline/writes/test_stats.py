"""The state of the service, also while parts of it are lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from serving.domain.breaker import FAILURES, Breaker
from serving.domain.budget import Deadline
from serving.domain.errors import StoreUnavailableError
from serving.pipeline.index.vector_space import VectorSpace
from serving.pipeline.writes import stats
from serving.pipeline.writes.stats import UNKNOWN_COUNT, Observer, Overview
from serving.ports.memory_store import TenantCounts
from tests.fakes.meaning import FakeEmbedder
from tests.fakes.pipeline import FixedIndex
from tests.support.builders import TENANT

COUNTS = TenantCounts(3, 0, 1, 2, 3, "english", "UTC")


async def hangs(*_: object) -> Any:
    await asyncio.Event().wait()


def returns(value: object) -> Any:
    async def answer(*_: object) -> object:
        return value

    return answer


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "PATIENCE_S", 0.01)


async def overview(observed: Observer) -> Overview:
    async with asyncio.timeout(10):
        return await observed.overview(TENANT)


def observer(
    *,
    embedder: Any = None,
    index: Any = None,
    count_entities: Any = None,
    breakers: Sequence[Breaker] = (),
    tenant_counts: Any = None,
    status: Any = None,
) -> Observer:
    """Of parts that are well unless others are given."""
    fakes: Any = SimpleNamespace
    return Observer(
        about=fakes(),
        catalog=fakes(tenant_counts=tenant_counts or returns(COUNTS), dead_letters=returns([])),
        log=fakes(status=status or returns([])),
        space=VectorSpace.of(embedder or FakeEmbedder(), index or FixedIndex()),
        graph=fakes(count_entities=count_entities or returns(7)),
        breakers=breakers,
    )


async def test_lost_parts_are_named_and_the_others_reported() -> None:
    lost = SimpleNamespace(model=hangs, embed_query=hangs, embed_documents=hangs)
    index = SimpleNamespace(status=hangs)

    found = await overview(observer(embedder=lost, index=index, count_entities=hangs))
    well = await overview(observer())

    assert found.tenant == COUNTS
    assert (found.index.ready, found.entities) == (False, UNKNOWN_COUNT)
    assert set(found.degraded) == {
        "embedder: no answer in time",
        "graph: no answer in time",
        "index: no answer in time",
    }
    assert (well.entities, well.degraded) == (7, [])


async def test_slow_or_lost_database_is_named() -> None:
    async def lost(*_: object) -> Any:
        raise StoreUnavailableError("connection refused")

    found = await overview(observer(tenant_counts=hangs, status=lost))

    assert (found.tenant, found.projections, found.entities) == (None, [], 7)
    assert found.degraded == [
        "PostgreSQL cannot be reached (connection refused)",
        "counts: no answer in time",
    ]


async def test_late_counts_are_those_of_the_next_caller() -> None:
    counted, calls = asyncio.Event(), 0

    async def slow(*_: object) -> TenantCounts:
        nonlocal calls
        calls += 1
        await counted.wait()
        return COUNTS

    observed = observer(tenant_counts=slow)

    first = await observed.overview(TENANT)
    counted.set()
    second = await observed.overview(TENANT)
    third = await observed.overview(TENANT)

    assert (first.tenant, second.tenant, third.tenant) == (None, COUNTS, COUNTS)
    assert calls == 2, "the second has what the first began, and the third counts anew"


async def test_a_dependency_that_is_not_asked_is_named() -> None:
    asked, not_asked = Breaker("index"), Breaker("graph")

    async def late(_: Deadline) -> None:
        raise TimeoutError

    for question in range(FAILURES):
        with suppress(TimeoutError):
            await not_asked.ask(question, Deadline.after(1), late)

    found = await overview(observer(breakers=[asked, not_asked]))

    assert found.degraded == [f"graph: {not_asked.trouble}"]


async def test_the_vectors_of_a_lost_embedder_are_still_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    embedder = FakeEmbedder()
    observed = observer(embedder=embedder)
    known = (await observed.overview(TENANT)).model

    monkeypatch.setattr(embedder, "model", hangs)

    assert known is not None
    assert (await observed.overview(TENANT)).model == known
