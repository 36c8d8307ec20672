"""`python -m serving verify`: planted damage is found, named and repaired while it is serving."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import neo4j
import psycopg
import pytest
from click.testing import CliRunner, Result

from serving.__main__ import main
from tests.fixtures.local_service import answered, local_service
from tests.fixtures.postgres import fresh_database
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
        env = {"TRIVIUM_POSTGRES__DSN": self.dsn, "TRIVIUM_NEO4J__URI": self.uri}
        return await asyncio.to_thread(CliRunner().invoke, main, words, env=env)

    async def verify(self, *options: str) -> Result:
        return await self.command("verify", *options)

    def damage_graph(self, statement: str) -> None:
        with neo4j.GraphDatabase.driver(self.uri) as driver:
            driver.execute_query(statement)

    def damage_embeddings(self, statement: str) -> None:
        with psycopg.connect(self.dsn) as connection:
            connection.execute(statement)


@pytest.fixture(scope="module")
def stores(postgres_server: str, neo4j_uri: str) -> Iterator[Stores]:
    """Empty stores."""
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
    result = await stores.verify()

    assert result.output == "tenant 'acme': 4 items, 0 differences\n"
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (
            "MATCH (node:Segment {id: 't1'}) DETACH DELETE node",
            ["graph: missing: 1 (segment t1)", "graph: stale: 1 (fact f1)"],
        ),
        ("MATCH (node:Fact) DETACH DELETE node", ["graph: missing: 1 (fact f1)"]),
        (
            "MATCH (node:Segment {id: 't1'}) SET node.importance = 0.9",
            ["graph: stale: 1 (segment t1)"],
        ),
        ("MATCH (node:Fact) SET node.relation = 'left'", ["graph: stale: 1 (fact f1)"]),
        (
            "MATCH (:Segment {id: 't1'})-[mentions:MENTIONS]->(:Entity {name: 'Tom'}) "
            "DELETE mentions",
            ["graph: stale: 1 (segment t1)"],
        ),
        (
            "CREATE (:Segment {tenant: 'acme', id: 'ghost', event_time: 0})",
            ["graph: left over: 1 (segment ghost)"],
        ),
        (
            "CREATE (:Segment {tenant: 'acme', id: 't3', event_time: 0})",
            ["graph: left over: 1 (segment t3)"],
        ),
        (
            "CREATE (:Fact {tenant: 'nobody', id: 'ghost'})",
            ["tenant 'nobody', graph: left over: 1 (fact ghost)"],
        ),
        (
            "CREATE (:Entity {tenant: 'acme', key: 'ghost', name: 'ghost'})",
            ["graph: left over: 1 (ghost)"],
        ),
        (
            "MATCH (node:Entity {name: 'Lotus Books'}) SET node.name = 'Rose Books'",
            ["graph: left over: 1 (lotus books)"],
        ),
    ],
)
async def test_a_graph_that_differs_is_found_and_repaired(
    stores: Stores, damage: str, expected: list[str]
) -> None:
    await asyncio.to_thread(stores.damage_graph, damage)

    await found_and_repaired(stores, expected)


KEY = "(SELECT key FROM segment WHERE id = 't1')"


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (f"DELETE FROM embedding WHERE key = {KEY}", "embeddings: missing: 1 (segment t1)"),
        (
            f"UPDATE embedding SET text_hash = 'another' WHERE key = {KEY}",
            "embeddings: stale: 1 (segment t1)",
        ),
        (
            f"UPDATE embedding SET vector = '\\x00' WHERE key = {KEY}",
            "embeddings: stale: 1 (segment t1)",
        ),
        (
            "INSERT INTO embedding SELECT model_id, 999, 0, text_hash, vector FROM embedding "
            "LIMIT 1",
            "no tenant, embeddings: left over: 1 (999)",
        ),
        (
            # As of before PostgreSQL rejected it.
            "ALTER TABLE embedding DISABLE TRIGGER USER;"
            "INSERT INTO embedding SELECT model_id, hidden.key, 0, '', vector "
            "FROM embedding, segment AS hidden WHERE hidden.id = 't3' LIMIT 1;"
            "ALTER TABLE embedding ENABLE TRIGGER USER",
            "embeddings: left over: 1 (segment t3)",
        ),
    ],
)
async def test_embeddings_that_differ_are_found_and_repaired(
    stores: Stores, damage: str, expected: str
) -> None:
    await asyncio.to_thread(stores.damage_embeddings, damage)

    await found_and_repaired(stores, [expected])


async def test_serving_graph_is_rebuilt_from_postgresql(stores: Stores) -> None:
    await asyncio.to_thread(stores.damage_graph, "MATCH (node) DETACH DELETE node")
    await asyncio.to_thread(stores.damage_graph, "CREATE (:Fact {tenant: 'nobody', id: 'ghost'})")

    rebuilt = await stores.command("rebuild", "graph")

    assert rebuilt.exit_code == 0, rebuilt.output
    assert (await stores.verify()).exit_code == 0


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


async def found_and_repaired(stores: Stores, expected: list[str]) -> None:
    found = await stores.verify()
    repaired = await stores.verify("--repair")
    after = await stores.verify()

    assert found.exit_code == 1, found.output
    for line in expected:
        assert line in found.output
    assert (repaired.exit_code, "differences repaired" in repaired.output) == (0, True), (
        repaired.output
    )
    assert (after.exit_code, "tenant 'acme': 4 items, 0 differences" in after.output) == (0, True)
