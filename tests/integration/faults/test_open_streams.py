"""Streams that stay open, as bots have them all day, are no calls that wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from serving.rpc.pending import PENDING_CALLS
from tests.fixtures.local_service import TENANT, local_address
from tests.support.waiting import until_async
from trivium.aio import AsyncClient
from trivium.values import Transcript

pytestmark = [pytest.mark.postgres, pytest.mark.neo4j]


async def _none_pending() -> bool:
    return PENDING_CALLS.count() == 0


async def test_open_streams_are_not_pending(postgres_dsn: str, neo4j_uri: str) -> None:
    said_more = asyncio.Event()

    async def transcripts() -> AsyncIterator[Transcript]:
        yield Transcript("Where is Zanzibar?")
        await said_more.wait()
        yield Transcript("Where is Zanzibar, and who lives there?", final=True)

    async with (
        local_address(postgres_dsn, neo4j_uri) as address,
        AsyncClient(address, tenant=TENANT, timeout=10) as client,
        grpc.aio.insecure_channel(address) as channel,
    ):
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        answers = client.retrieve_stream(transcripts())
        await watch.read()
        await anext(answers)

        await until_async(_none_pending)

        said_more.set()
        assert [answer.final async for answer in answers][-1]
        watch.cancel()
