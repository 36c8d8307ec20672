"""Replaces transcripts, and looks where the search for the older one still is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from itertools import pairwise
from typing import TypeAlias

import neo4j
import psycopg

from bench.harness.collection import Collection, Memory
from bench.harness.local_server import listening
from bench.speed.cancellation.held import HeldEncoder, WatchedEmbedder, searches_held
from serving.adapters.neo4j.walks import FIND_SEGMENTS
from serving.composition.index import SpaceParts
from serving.composition.service import running_service
from serving.config.settings import load_settings
from trivium.aio import AsyncClient
from trivium.values import Transcript

POSTGRES, NEO4J, EMBEDDER = "PostgreSQL", "Neo4j", "encoder's queue"

WITHIN_S = 10.0
STORED_WITHIN_S = 120.0
STREAM_S = 300.0
POLL_S = 0.0005
SEARCH_S = 25.0
"""The time budget of a search; none is used up."""

STATEMENTS = """
SELECT pid, query_start FROM pg_stat_activity
 WHERE datname = current_database() AND state = 'active' AND pid <> pg_backend_pid()
   AND query LIKE '%ts_rank(%'
"""
"""Those of the search by words: others, which the lock holds too, are not for a transcript."""

TRANSACTIONS = "SHOW TRANSACTIONS YIELD transactionId, currentQuery WHERE currentQuery = $walk"
"""Those of the walk from the names in a question: others are planned in the background."""

Work: TypeAlias = "frozenset[object]"
"""Statements or transactions, each by what no other one has."""


class Stores:
    """What runs in the stores."""

    def __init__(self, connection: psycopg.AsyncConnection, driver: neo4j.AsyncDriver) -> None:
        self._connection = connection
        self._driver = driver

    async def statements(self) -> Work:
        """The statements of searches in PostgreSQL."""
        cursor = await self._connection.execute(STATEMENTS)
        return frozenset(await cursor.fetchall())

    async def transactions(self) -> Work:
        """The transactions of searches in Neo4j."""
        async with self._driver.session() as session:
            found = await session.run(TRANSACTIONS, walk=FIND_SEGMENTS)
            return frozenset([record["transactionId"] async for record in found])


async def measure(
    dsn: str, neo4j_uri: str, collection: Collection, count: int
) -> Mapping[str, list[float]]:
    """The seconds until the search for an older transcript was gone, by where it was.

    Raises:
        TimeoutError: A search was not seen in each of them, or was not gone within ten seconds.
    """
    settings = load_settings({"postgres": {"dsn": dsn}, "neo4j": {"uri": neo4j_uri}})
    encoder = HeldEncoder()
    async with (
        WatchedEmbedder(encoder) as embedder,
        running_service(settings, space=SpaceParts(embedder)) as service,
        listening(service) as address,
        AsyncClient(address, timeout=SEARCH_S) as client,
        neo4j.AsyncGraphDatabase.driver(neo4j_uri) as driver,
        await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection,
    ):
        question = collection.queries[0]
        of_tenant = client.for_tenant(question.tenant)
        await _store(of_tenant, collection.memories[question.tenant])
        async with searches_held(dsn, driver, encoder, embedder):
            stores = Stores(connection, driver)
            return await _replace(of_tenant, question.text, stores, embedder, count)


async def _store(client: AsyncClient, memory: Memory) -> None:
    """Writes a tenant's items, and waits until every leg can find them."""
    token = (await client.ingest([*memory.segments, *memory.facts])).consistency_token

    async def found() -> bool:
        return (await client.retrieve("What was said?", consistency_token=token)).complete

    await _until(found, STORED_WITHIN_S)


async def _replace(
    client: AsyncClient, text: str, stores: Stores, embedder: WatchedEmbedder, count: int
) -> Mapping[str, list[float]]:
    said: asyncio.Queue[Transcript] = asyncio.Queue()

    async def transcripts() -> AsyncIterator[Transcript]:
        while True:
            yield await said.get()

    async def read() -> None:
        async for _ in client.retrieve_stream(transcripts(), stream_timeout=STREAM_S):
            pass

    seconds: dict[str, list[float]] = {POSTGRES: [], NEO4J: [], EMBEDDER: []}
    reading = asyncio.create_task(read())
    try:
        texts = [f"{number}: {text}" for number in range(count + 1)]
        said.put_nowait(Transcript(texts[0]))
        for older, newer in pairwise(texts):
            await _until(partial(_seen, stores, embedder, older))
            for where, taken in (await _gone(stores, embedder, older, newer, said)).items():
                seconds[where].append(taken)
        if embedder.waiting_queries > 1:
            raise RuntimeError("replaced transcripts wait for the encoder; this is a bug")
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    return seconds


async def _seen(stores: Stores, embedder: WatchedEmbedder, text: str) -> bool:
    """Whether the search for a transcript is in each of the three, as the only one."""
    queued = text in embedder.queued
    return queued and len(await stores.statements()) == len(await stores.transactions()) == 1


async def _gone(
    stores: Stores,
    embedder: WatchedEmbedder,
    older: str,
    newer: str,
    said: asyncio.Queue[Transcript],
) -> Mapping[str, float]:
    """Sends a newer transcript; the seconds from then until the search for the older is gone."""
    statements, transactions = await stores.statements(), await stores.transactions()
    sent = time.perf_counter()
    said.put_nowait(Transcript(newer))

    async def left() -> bool:
        return older in embedder.left_at

    ended = await asyncio.gather(
        _until(lambda: _without(stores.statements, statements)),
        _until(lambda: _without(stores.transactions, transactions)),
        _until(left),
    )
    return {
        POSTGRES: ended[0] - sent,
        NEO4J: ended[1] - sent,
        EMBEDDER: embedder.left_at[older] - sent,
    }


async def _without(look: Callable[[], Awaitable[Work]], gone: Work) -> bool:
    return gone.isdisjoint(await look())


async def _until(holds: Callable[[], Awaitable[bool]], within_s: float = WITHIN_S) -> float:
    """Looks until a condition holds; returns when it was seen to."""
    async with asyncio.timeout(within_s):
        while not await holds():  # noqa: ASYNC110 - what runs elsewhere sets no event
            await asyncio.sleep(POLL_S)
    return time.perf_counter()
