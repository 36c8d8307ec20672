from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import neo4j
import pytest
from neo4j.exceptions import SessionExpired

from serving.adapters.neo4j import Neo4jGraph, statements, walks
from serving.adapters.neo4j.graph import Neo4jSettings
from serving.adapters.neo4j.projection import Row
from serving.deployments.ray_environment import LOOPBACK, free_ports
from serving.domain.budget import Deadline
from serving.domain.errors import DependencyError
from serving.domain.leg_options import Walk
from serving.domain.profile import Yields
from serving.ports import GraphChanges
from tests.builders import TENANT, query


def nowhere(connect_timeout_s: float = 1) -> Neo4jSettings:
    """An address that nobody listens at."""
    uri = f"bolt://{LOOPBACK}:{free_ports(1)}"
    return Neo4jSettings(uri=uri, connect_timeout_s=connect_timeout_s)


class Reluctant(Neo4jGraph):
    """Is prepared at the second try, and says so."""

    def __init__(self) -> None:
        super().__init__(nowhere())
        self.tries = 0
        self.prepared = asyncio.Event()

    async def prepare(self) -> None:
        self.tries += 1
        if self.tries == 1:
            raise DependencyError("graph", "not yet")
        self.prepared.set()


async def test_a_lost_graph_is_prepared_again_as_soon_as_it_is_back() -> None:
    graph = Reluctant()
    asked = query("Who is Mara?")
    try:
        for _ in range(2):
            with pytest.raises(DependencyError):
                await graph.search(asked, Walk(), None, 5, Yields.EVIDENCE, Deadline.after(5))
        async with asyncio.timeout(10):
            await graph.prepared.wait()
    finally:
        await graph.close()

    assert graph.tries == 2


class Slow(Neo4jGraph):
    """Runs statements in no time but for a walk that is not usual, which it never ends."""

    def __init__(self) -> None:
        super().__init__(nowhere(connect_timeout_s=0))
        self.walks: list[str] = []
        self.other_begun = asyncio.Event()

    async def _fetch(
        self, query: neo4j.Query, given: Row, access: str = neo4j.READ_ACCESS
    ) -> list[neo4j.Record]:
        if query.text in walks.SEARCHES:
            self.walks.append(query.text)
        if query.text in walks.OTHERS:
            self.other_begun.set()
            await asyncio.Event().wait()
        return []


async def test_it_is_prepared_with_the_usual_walks_and_plans_the_others_beside() -> None:
    graph = Slow()
    async with asyncio.timeout(10):
        await graph.prepare()
        before_it_is_ready = list(graph.walks)
        await graph.other_begun.wait()
        await graph.close()

    assert before_it_is_ready == list(walks.USUAL)
    assert graph.walks == [*walks.USUAL, walks.OTHERS[0]]


class Restarted(Neo4jGraph):
    """Neo4j has restarted: the connection that is pooled says so when it is first used."""

    def __init__(self) -> None:
        super().__init__(nowhere(connect_timeout_s=0))
        self.is_pooled = True

    def _use_connection(self) -> None:
        if self.is_pooled:
            self.is_pooled = False
            raise SessionExpired("closed by Neo4j")

    async def _fetch(
        self, query: neo4j.Query, given: Row, access: str = neo4j.READ_ACCESS
    ) -> list[neo4j.Record]:
        self._use_connection()
        counted = neo4j.Record({"count": len(statements.INDEXES)})  # type: ignore[no-untyped-call]
        return [counted]

    async def _apply(self, changes: GraphChanges) -> None:
        self._use_connection()


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda graph: graph.prepare(), id="prepare"),
        pytest.param(lambda graph: graph.apply(GraphChanges()), id="apply"),
        pytest.param(lambda graph: graph.count_entities(TENANT), id="read"),
    ],
)
async def test_a_pooled_connection_that_has_died_fails_no_call(
    call: Callable[[Neo4jGraph], Awaitable[object]],
) -> None:
    graph = Restarted()
    async with asyncio.timeout(10):
        await call(graph)
        await graph.close()

    assert not graph.is_pooled
