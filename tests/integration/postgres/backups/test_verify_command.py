"""`python -m serving verify`: planted damage is found, named and repaired while it is serving."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import neo4j
import psycopg
import pytest
from click.testing import CliRunner, Result

from serving.__main__ import main
from tests.fixtures.local_service import local_service
from tests.fixtures.postgres import fresh_database
from trivium import Fact, Segment

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

    async def verify(self, *options: str) -> Result:
        env = {"TRIVIUM_POSTGRES__DSN": self.dsn, "TRIVIUM_NEO4J__URI": self.uri}
        return await asyncio.to_thread(CliRunner().invoke, main, ["verify", *options], env=env)

    def damage_graph(self, statement: str) -> None:
        with neo4j.GraphDatabase.driver(self.uri) as driver:
            driver.execute_query(statement)

    def damage_embeddings(self, statement: str) -> None:
        with psycopg.connect(self.dsn) as connection:
            connection.execute(statement)


@pytest.fixture(scope="module")
async def stores(postgres_server: str, neo4j_uri: str) -> AsyncIterator[Stores]:
    """Stores with `ITEMS`, and the service that projects them."""
    with fresh_database(postgres_server) as dsn:
        stores = Stores(dsn, neo4j_uri)
        stores.damage_graph("MATCH (node) DETACH DELETE node")
        async with local_service(dsn, neo4j_uri) as memory:
            await memory.ingest(ITEMS)
            yield stores


async def test_stores_that_agree_have_no_differences(stores: Stores) -> None:
    result = await stores.verify()

    assert (result.exit_code, result.output) == (0, "tenant 'acme': 4 items, 0 differences\n")


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
            "INSERT INTO embedding SELECT model_id, hidden.key, 0, '', vector "
            "FROM embedding, segment AS hidden WHERE hidden.id = 't3' LIMIT 1",
            "embeddings: left over: 1 (segment t3)",
        ),
    ],
)
async def test_embeddings_that_differ_are_found_and_repaired(
    stores: Stores, damage: str, expected: str
) -> None:
    await asyncio.to_thread(stores.damage_embeddings, damage)

    await found_and_repaired(stores, [expected])


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
