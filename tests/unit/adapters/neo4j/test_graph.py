from __future__ import annotations

import asyncio

import pytest

from serving.adapters.neo4j import Neo4jGraph
from serving.adapters.neo4j.graph import Neo4jSettings
from serving.deployments.ray_environment import LOOPBACK, free_ports
from serving.domain.budget import Deadline
from serving.domain.errors import DependencyError
from serving.domain.leg_options import Walk
from serving.domain.profile import Yields
from tests.builders import query


class Reluctant(Neo4jGraph):
    """Is prepared at the second try, and says so."""

    def __init__(self) -> None:
        super().__init__(Neo4jSettings(uri=f"bolt://{LOOPBACK}:{free_ports(1)}"))
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
