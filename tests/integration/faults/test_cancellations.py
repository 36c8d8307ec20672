"""Callers give up at random moments: no connection, statement or task of theirs is left.

`pytest tests/integration/faults/test_cancellations.py --cancellations 10000` is the long run.
"""

from __future__ import annotations

import asyncio
import random

import neo4j
import psycopg
import pytest

from serving.config.settings import load_settings
from tests.fixtures.local_service import local_service
from tests.fixtures.neo4j import leaves_sockets
from tests.support.waiting import until_async
from trivium import Fact, Segment
from trivium.aio import AsyncClient
from trivium.errors import TriviumError

pytestmark = [pytest.mark.postgres, pytest.mark.neo4j, pytest.mark.timeout(3600)]

CALLERS = 8
LONGEST_S = 0.06
"""About as long as an answer takes, so that cancellations hit every step of it."""

SAID = [
    Segment(id=f"t{number}", speaker="Mara", text=f"Lotus Books hired Tom in 19{number}.")
    for number in range(10, 60)
]
KNOWN = Fact(id="f1", subject="Tom", relation="works at", object="Lotus Books", evidence=("t10",))


@leaves_sockets
async def test_random_cancellations_leave_the_pools_whole(
    postgres_dsn: str, neo4j_uri: str, pytestconfig: pytest.Config
) -> None:
    count = pytestconfig.getoption("--cancellations")
    async with local_service(postgres_dsn, neo4j_uri) as memory:
        token = (await memory.ingest([*SAID, KNOWN])).consistency_token
        await until_async(lambda: is_whole(memory, token))
        before = len(asyncio.all_tasks())

        cancelled = await cancel_at_random(memory, count)

        assert cancelled > count / 4
        await until_async(lambda: nothing_runs(postgres_dsn, neo4j_uri))
        # A connection that was lost is missing when all are needed.
        most = load_settings({}).postgres.search_connections
        await until_async(lambda: all_whole(memory, most))
        await until_async(lambda: few_tasks(before))


async def cancel_at_random(memory: AsyncClient, count: int) -> int:
    """Asks so often, and gives up after a random time; returns how often before the answer."""
    draw = random.Random(7)
    waits = iter([draw.uniform(0, LONGEST_S) for _ in range(count)])
    cancelled = 0

    async def caller(number: int) -> None:
        nonlocal cancelled
        for wait_s in waits:
            asking = asyncio.create_task(memory.retrieve(f"Who hired Tom in 19{10 + number}?"))
            await asyncio.wait([asking], timeout=wait_s)
            cancelled += asking.cancel()
            await asyncio.wait([asking])
            if not asking.cancelled() and isinstance(error := asking.exception(), Exception):
                assert isinstance(error, TriviumError), error

    await asyncio.gather(*map(caller, range(CALLERS)))
    return cancelled


async def is_whole(memory: AsyncClient, token: str = "") -> bool:
    """Whether every leg answers."""
    try:
        return (await memory.retrieve("Who hired Tom?", consistency_token=token)).complete
    except TriviumError:
        return False


async def all_whole(memory: AsyncClient, count: int) -> bool:
    return all(await asyncio.gather(*(is_whole(memory) for _ in range(count))))


async def few_tasks(before: int) -> bool:
    """Whether no more tasks run than before, but for those that come and go."""
    return len(asyncio.all_tasks()) <= before + 4


async def nothing_runs(dsn: str, neo4j_uri: str) -> bool:
    """Whether the stores run no statement and no transaction but those that ask."""
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        cursor = await connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND state <> 'idle' AND pid <> pg_backend_pid()"
        )
        [(statements,)] = await cursor.fetchall()
    async with neo4j.AsyncGraphDatabase.driver(neo4j_uri) as driver:
        transactions = await driver.execute_query("SHOW TRANSACTIONS")
    return bool(statements == 0 and len(transactions.records) == 1)
