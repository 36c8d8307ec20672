"""A newer transcript ends the search for the older one in every store, while both are held up.

An exclusive lock on a table holds PostgreSQL's statements. In Neo4j readers wait for no writer, but
a statement that uses an index waits for a transaction that creates another one for the same label.
The encoder has a question in hand, so that others stay in the queue.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise

import neo4j
import psycopg
import pytest

from bench.harness.sample import multiplied_sample
from serving.adapters.neo4j.walks import FIND_SEGMENTS
from serving.domain.budget import Deadline
from serving.pipeline.inference.embedder import BatchedEmbedder
from serving.ports.embedding import TokenIds, VectorLike, Vectors
from tests.fakes.meaning import FakeEncoder
from tests.fixtures.local_service import answered, local_address
from tests.fixtures.neo4j import leaves_sockets
from trivium.aio import AsyncClient
from trivium.values import Transcript

pytestmark = [pytest.mark.postgres, pytest.mark.neo4j]

REPLACED = 5
WITHIN_S = 10.0
SEARCH_S = 25.0
"""The time budget of a search; none is used up."""

LOCK = "LOCK TABLE segment IN ACCESS EXCLUSIVE MODE"
NEW_INDEX = "CREATE INDEX held FOR (entity:Entity) ON (entity.held)"
STATEMENTS = """
SELECT pid, query_start FROM pg_stat_activity
 WHERE datname = current_database() AND state = 'active' AND pid <> pg_backend_pid()
   AND query LIKE '%ts_rank(%'
"""
TRANSACTIONS = "SHOW TRANSACTIONS YIELD transactionId, currentQuery WHERE currentQuery = $walk"


class HeldEncoder(FakeEncoder):
    """Encodes, and may be held for as long as it is wanted."""

    def __init__(self) -> None:
        super().__init__(window=64)
        self.free = threading.Event()
        self.free.set()

    def encode(self, windows: Sequence[TokenIds]) -> Vectors:
        self.free.wait()
        return super().encode(windows)


class WatchedEmbedder(BatchedEmbedder):
    """Notes which questions are in its queue."""

    def __init__(self, encoder: HeldEncoder) -> None:
        super().__init__(encoder)
        self.queued: set[str] = set()

    async def embed_query(self, text: str, deadline: Deadline) -> VectorLike:
        self.queued.add(text)
        try:
            return await super().embed_query(text, deadline)
        finally:
            self.queued.discard(text)


class Searches:
    """What runs in the stores and in the encoder's queue."""

    def __init__(
        self,
        connection: psycopg.AsyncConnection,
        driver: neo4j.AsyncDriver,
        embedder: WatchedEmbedder,
    ) -> None:
        self._connection = connection
        self._driver = driver
        self._embedder = embedder

    async def statements(self) -> frozenset[object]:
        cursor = await self._connection.execute(STATEMENTS)
        return frozenset(await cursor.fetchall())

    async def transactions(self) -> frozenset[object]:
        async with self._driver.session() as session:
            found = await session.run(TRANSACTIONS, walk=FIND_SEGMENTS)
            return frozenset([record["transactionId"] async for record in found])

    async def has(self, text: str) -> bool:
        """Whether the search for a text is in each of the three, as the only one."""
        queued = text in self._embedder.queued
        return queued and len(await self.statements()) == len(await self.transactions()) == 1

    async def replace(self, older: str, send: Callable[[], None]) -> None:
        """Sends a newer transcript, and waits until the search for the older one is gone."""
        await until(lambda: self.has(older))
        statements, transactions = await self.statements(), await self.transactions()
        send()

        async def gone() -> bool:
            return (
                older not in self._embedder.queued
                and statements.isdisjoint(await self.statements())
                and transactions.isdisjoint(await self.transactions())
            )

        await until(gone)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not await holds():  # noqa: ASYNC110 - what runs elsewhere sets no event
            await asyncio.sleep(0.001)


@asynccontextmanager
async def searches_held(
    dsn: str, driver: neo4j.AsyncDriver, encoder: HeldEncoder, embedder: WatchedEmbedder
) -> AsyncIterator[None]:
    """Lets no search get on while the body runs."""
    in_hand = None
    try:
        async with (
            await psycopg.AsyncConnection.connect(dsn) as connection,
            driver.session() as session,
            await session.begin_transaction() as transaction,
        ):
            await connection.execute(LOCK)
            await (await transaction.run(NEW_INDEX)).consume()
            encoder.free.clear()
            in_hand = asyncio.create_task(embedder.embed_query("in hand", Deadline.after(600)))
            yield
            await transaction.rollback()
            await connection.rollback()
    finally:
        encoder.free.set()
        if in_hand is not None:
            await in_hand


@pytest.mark.usefixtures("neo4j_graph")
@leaves_sockets
async def test_the_search_for_a_replaced_transcript_ends_in_every_store(
    postgres_dsn: str, neo4j_uri: str
) -> None:
    sample = multiplied_sample(1)
    question = sample.queries[0]
    memory = sample.memories[question.tenant]
    encoder = HeldEncoder()
    sent: asyncio.Queue[Transcript] = asyncio.Queue()

    async def transcripts() -> AsyncIterator[Transcript]:
        while True:
            yield await sent.get()

    async def read(client: AsyncClient) -> None:
        async for _ in client.retrieve_stream(transcripts(), stream_timeout=300):
            pass

    async with (
        WatchedEmbedder(encoder) as embedder,
        local_address(postgres_dsn, neo4j_uri, embedder=embedder) as address,
        AsyncClient(address, tenant=question.tenant, timeout=SEARCH_S) as client,
        neo4j.AsyncGraphDatabase.driver(neo4j_uri) as driver,
        await psycopg.AsyncConnection.connect(postgres_dsn, autocommit=True) as connection,
    ):
        written = await client.ingest([*memory.segments, *memory.facts])
        await answered(client, "What was said?", written.consistency_token)
        searches = Searches(connection, driver, embedder)
        async with searches_held(postgres_dsn, driver, encoder, embedder):
            reading = asyncio.create_task(read(client))
            texts = [f"{number}: {question.text}" for number in range(REPLACED + 1)]
            sent.put_nowait(Transcript(texts[0]))
            try:
                for older, newer in pairwise(texts):
                    await searches.replace(older, partial(sent.put_nowait, Transcript(newer)))
                assert embedder.waiting_queries <= 1
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
