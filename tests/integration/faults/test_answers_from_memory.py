"""What a service answers from memory while a store is away, and after an erasure."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from bench.speed.faults.relay import Endpoint, Relay
from tests.fixtures.local_service import answered, local_service
from tests.fixtures.neo4j import leaves_sockets
from tests.support.answers import states
from tests.support.waiting import until_async
from trivium import Fact, Segment
from trivium.aio import AsyncClient
from trivium.errors import DeadlineError, UnavailableError
from trivium.values import LegState, Retrieval

pytestmark = [pytest.mark.postgres, pytest.mark.neo4j]

ENOUGH = 2**28
SAID = Segment(id="t1", text="Mara hired Tom.", entities=("Mara", "Tom"))
KNOWN = Fact(id="f1", subject="Mara", relation="hired", object="Tom", evidence=("t1",))
NO_NEO4J = "bolt://127.0.0.1:1"
QUESTION = "Who hired Tom?"


async def graph_is_ok(memory: AsyncClient) -> bool:
    """Whether the leg of relations answers, and the tenant is loaded if it is not in memory."""
    return states(await memory.retrieve(QUESTION, timeout=5))["graph"] is LegState.OK


def legs_in_memory(answer: Retrieval) -> set[str]:
    """The legs that say that no store was asked."""
    return {report.leg for report in answer.leg_reports if report.in_memory}


@leaves_sockets
async def test_unreachable_neo4j_fails_no_leg_in_memory(postgres_dsn: str) -> None:
    async with local_service(postgres_dsn, NO_NEO4J, view_bytes=ENOUGH) as memory:
        await memory.ingest([SAID, KNOWN])
        await until_async(lambda: graph_is_ok(memory))
        of_memory = await memory.retrieve(QUESTION, timeout=5)
        of_stores = await memory.retrieve(QUESTION, profile_overrides={"in_memory": False})

    assert legs_in_memory(of_memory) == {"graph", "lexical"}
    assert states(of_stores)["graph"] is LegState.FAILED
    assert not legs_in_memory(of_stores)


@leaves_sockets
async def test_lost_postgres_ends_answers_from_memory(postgres_dsn: str) -> None:
    server = conninfo_to_dict(postgres_dsn)
    socket = Path(str(server["host"])) / f".s.PGSQL.{server['port']}"
    relay = Relay(Endpoint(path=socket), Endpoint())
    await relay.open()
    dsn = make_conninfo(postgres_dsn, host="127.0.0.1", port=relay.listen.port)
    async with local_service(dsn, NO_NEO4J, view_bytes=ENOUGH) as memory:
        await memory.ingest([SAID, KNOWN])
        await until_async(lambda: graph_is_ok(memory))

        await relay.close()
        await until_async(lambda: is_unavailable(memory))
        await relay.open()
        await until_async(lambda: graph_is_ok_again(memory))
        await relay.close()


async def is_unavailable(memory: AsyncClient) -> bool:
    try:
        await memory.retrieve(QUESTION, timeout=5)
    except (UnavailableError, DeadlineError):
        return True
    return False


async def graph_is_ok_again(memory: AsyncClient) -> bool:
    with contextlib.suppress(UnavailableError, DeadlineError):
        return await graph_is_ok(memory)
    return False


async def test_receipt_of_an_erasure_names_memory(postgres_dsn: str, neo4j_uri: str) -> None:
    async with local_service(postgres_dsn, neo4j_uri, view_bytes=ENOUGH) as memory:
        token = (await memory.ingest([SAID, KNOWN])).consistency_token
        await answered(memory, QUESTION, token)
        warmed = await memory.warm()

        forgotten = await memory.forget(segment_ids=["t1"])
        after = await memory.retrieve(QUESTION)

    assert [(each.warm, each.reason) for each in warmed if each.part == "memory"] == [(True, "")]
    receipts = {each.store: each for each in forgotten.receipts}
    assert receipts["memory"].verified
    assert receipts["memory"].remaining_count == 0
    assert after.hits == ()
