"""`trivium-server verify`: planted damage is found, named and repaired while it is serving."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

import neo4j
import psycopg
import pytest
from click.testing import Result

from tests.fixtures.local_service import answered, local_service
from tests.fixtures.postgres import fresh_database
from tests.support.commands import command
from trivium import Fact, Segment
from trivium.aio import AsyncClient

pytestmark = [pytest.mark.postgres, pytest.mark.neo4j]

ITEMS: list[Segment | Fact] = [
    Segment(id="t1", speaker="Mara", text="Lotus Books hired Tom.", entities=["Tom"]),
    Segment(id="t2", speaker="Tom", text="I begin on Monday."),
    Fact(id="f1", subject="Tom", relation="works at", object="Lotus Books", evidence=("t1",)),
    Segment(id="t3", text="My code is 1234.", sensitive=True),
]


@dataclass(frozen=True, slots=True)
class Stores:
    """The stores of a service that is running."""

    dsn: str
    uri: str

    async def command(self, *words: str) -> Result:
        return await command(*words, dsn=self.dsn, uri=self.uri)

    def damage_graph(self, statement: str) -> None:
        with neo4j.GraphDatabase.driver(self.uri) as driver:
            driver.execute_query(statement)

    def damage_embeddings(self, statement: str) -> None:
        with psycopg.connect(self.dsn) as connection:
            connection.execute(statement)


@pytest.fixture(scope="module")
def stores(postgres_server: str, neo4j_uri: str) -> Iterator[Stores]:
    with fresh_database(postgres_server) as dsn:
        stores = Stores(dsn, neo4j_uri)
        stores.damage_graph("MATCH (node) DETACH DELETE node")
        yield stores


@pytest.fixture(scope="module", autouse=True)
async def memory(stores: Stores) -> AsyncIterator[AsyncClient]:
    """The service that has projected `ITEMS`."""
    async with local_service(stores.dsn, stores.uri) as memory:
        token = (await memory.ingest(ITEMS)).consistency_token
        await answered(memory, "Who is Tom?", token)
        yield memory


async def test_stores_that_agree_have_no_differences(stores: Stores) -> None:
    result = await stores.command("verify")

    assert result.output == "tenant 'acme': 4 items, 0 differences\n"
    assert result.exit_code == 0


SEGMENT, FACT = "(node:Segment {id: 't1'})", "(node:Fact)"
IN_GRAPH = {
    f"MATCH {SEGMENT} DETACH DELETE node": (
        "graph: missing: 1 (segment t1)\ngraph: stale: 1 (fact f1)"
    ),
    f"MATCH {FACT} DETACH DELETE node": "graph: missing: 1 (fact f1)",
    f"MATCH {SEGMENT} SET node.importance = 0.9": "graph: stale: 1 (segment t1)",
    f"MATCH {FACT} SET node.relation = 'left'": "graph: stale: 1 (fact f1)",
    f"MATCH {SEGMENT}-[to:MENTIONS]->({{name: 'Tom'}}) DELETE to": "graph: stale: 1 (segment t1)",
    "CREATE (:Segment {tenant: 'acme', id: 'g', event_time: 0})": "graph: left over: 1 (segment g)",
    "CREATE (:Segment {tenant: 'acme', id: 't3', event_time: 0})": (
        "graph: left over: 1 (segment t3)"
    ),
    "CREATE (:Fact {tenant: 'nobody', id: 'f'})": "tenant 'nobody', graph: left over: 1 (fact f)",
    "CREATE (:Entity {tenant: 'acme', key: 'new'})": "graph: left over: 1 (new)",
    "MATCH (node {name: 'Lotus Books'}) SET node.name = ''": "graph: left over: 1 (lotus books)",
}
KEY = "(SELECT key FROM segment WHERE id = 't1')"
IN_EMBEDDINGS = {
    f"DELETE FROM embedding WHERE key = {KEY}": "embeddings: missing: 1 (segment t1)",
    f"UPDATE embedding SET text_hash = 'x' WHERE key = {KEY}": "embeddings: stale: 1 (segment t1)",
    f"UPDATE embedding SET vector = '\\x00' WHERE key = {KEY}": "embeddings: stale: 1 (segment t1)",
    "INSERT INTO embedding SELECT model_id, 999, 0, '', vector FROM embedding LIMIT 1": (
        "no tenant, embeddings: left over: 1 (999)"
    ),
    # As of before PostgreSQL rejected it.
    "ALTER TABLE embedding DISABLE TRIGGER USER;"
    "INSERT INTO embedding SELECT model_id, hidden.key, 0, '', vector "
    "FROM embedding, segment AS hidden WHERE hidden.id = 't3' LIMIT 1;"
    "ALTER TABLE embedding ENABLE TRIGGER USER": "embeddings: left over: 1 (segment t3)",
}


@pytest.mark.parametrize(
    ("damage", "statement", "expected"),
    [
        *((Stores.damage_graph, *damage) for damage in IN_GRAPH.items()),
        *((Stores.damage_embeddings, *damage) for damage in IN_EMBEDDINGS.items()),
    ],
)
async def test_stores_that_differ_are_found_and_repaired(
    stores: Stores,
    damage: Callable[[Stores, str], None],
    statement: str,
    expected: str,
) -> None:
    await asyncio.to_thread(damage, stores, statement)

    found = await stores.command("verify")
    repaired = await stores.command("verify", "--repair")
    after = await stores.command("verify")

    assert found.exit_code == 1, found.output
    for line in expected.splitlines():
        assert line in found.output
    assert repaired.exit_code == 0, repaired.output
    assert "differences repaired" in repaired.output
    assert (after.exit_code, "tenant 'acme': 4 items, 0 differences" in after.output) == (0, True)


async def test_serving_graph_is_rebuilt_from_postgresql(stores: Stores) -> None:
    await asyncio.to_thread(stores.damage_graph, "MATCH (node) DETACH DELETE node")
    await asyncio.to_thread(stores.damage_graph, "CREATE (:Fact {tenant: 'nobody', id: 'ghost'})")

    rebuilt = await stores.command("rebuild", "graph")

    assert rebuilt.exit_code == 0, rebuilt.output
    assert (await stores.command("verify")).exit_code == 0


async def test_serving_index_is_rebuilt_from_postgresql(
    stores: Stores, memory: AsyncClient
) -> None:
    question = "Who hired Tom?"
    before = await memory.retrieve(question)
    filled = (await memory.stats()).index.epoch

    rebuilt = await stores.command("rebuild", "index")

    assert rebuilt.exit_code == 0, rebuilt.output
    token = (await memory.ingest(ITEMS)).consistency_token
    async with asyncio.timeout(60):
        while (await memory.stats()).index.epoch == filled:
            pass
    after = await answered(memory, question, token)
    assert [hit.id for hit in after.hits] == [hit.id for hit in before.hits]
