from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import neo4j
import pytest
from neo4j.exceptions import SessionExpired

from serving.adapters.neo4j import Neo4jGraph, statements, walks
from serving.adapters.neo4j.graph import Neo4jSettings
from serving.adapters.neo4j.rows import Row
from serving.desk.ray_environment import LOOPBACK, free_ports
from serving.domain.budget import Deadline
from serving.domain.errors import DependencyError
from serving.domain.ranking.leg_options import Walk
from serving.domain.ranking.profile import Yields
from serving.ports.graph import GraphChanges
from tests.support.builders import TENANT, query


def nowhere(connect_timeout_s: float = 1) -> Neo4jSettings:
    """An address without a listener."""
    uri = f"bolt://{LOOPBACK}:{free_ports(1)}"
    return Neo4jSettings(uri=uri, connect_timeout_s=connect_timeout_s)


class Reluctant(Neo4jGraph):
    """A graph that is prepared at the second try."""

    def __init__(self) -> None:
        super().__init__(nowhere())
        self.tries = 0
        self.prepared = asyncio.Event()

    async def prepare(self) -> None:
        self.tries += 1
        if self.tries == 1:
            raise DependencyError("graph", "not yet")
        self.prepared.set()


async def test_lost_graph_is_prepared_again_once_back() -> None:
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
    """A graph whose statements return at once, except custom walks, which never end."""

    def __init__(self) -> None:
        super().__init__(nowhere(connect_timeout_s=0))
        self.walks: list[str] = []
        self.custom_begun = asyncio.Event()

    async def _fetch(
        self, query: neo4j.Query, given: Row, access: str = neo4j.READ_ACCESS
    ) -> list[neo4j.Record]:
        if query.text in walks.DEFAULT + walks.CUSTOM:
            self.walks.append(query.text)
        if query.text in walks.CUSTOM:
            self.custom_begun.set()
            await asyncio.Event().wait()
        return []


async def test_walks_are_planned_while_writes_go_on() -> None:
    graph = Slow()
    async with asyncio.timeout(10):
        await graph.prepare()
        when_prepared = list(graph.walks)
        await graph.custom_begun.wait()
        await graph.close()

    assert when_prepared == []
    assert graph.walks == [*walks.DEFAULT, walks.CUSTOM[0]]


class Restarted(Neo4jGraph):
    """A graph after a restart of Neo4j: the first use of the pooled connection fails."""

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
        if query.text != statements.INDEX_STATES:
            return [neo4j.Record({"count": 1})]  # type: ignore[no-untyped-call]
        return [
            neo4j.Record({"name": name, "state": "ONLINE"})  # type: ignore[no-untyped-call]
            for name in statements.INDEXES
        ]

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
