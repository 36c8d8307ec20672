"""Recall while somebody speaks, over the network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psutil
import pytest

from serving.desk.ray_environment import REPLICA_PORTS
from tests.e2e.test_service import CONVERSATION, FACTS
from tests.fixtures.local_service import answered
from tests.fixtures.service import Service
from tests.support.answers import states
from trivium import AsyncClient, BriefingOptions, Transcript
from trivium.values import LegState

PARTIALS = ["Who", "Who hired", "Who hired Tom"]
QUESTION = "Who hired Tom?"


@pytest.fixture(scope="module")
async def token(service: Service) -> str:
    """That of a write which every leg has seen."""
    async with AsyncClient(service.address, tenant="recall", timeout=30) as client:
        token = (await client.ingest([*CONVERSATION, *FACTS])).consistency_token
        await answered(client, QUESTION, token)
    return token


def replica_address(service: Service) -> str:
    """The port of the ingress replica itself, to which HAProxy sends the calls."""
    for replica in service.descendants("Ingress"):
        first = int(replica.environ()["RAY_SERVE_DIRECT_INGRESS_MIN_GRPC_PORT"])
        for connection in replica.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and (
                first <= connection.laddr.port < first + REPLICA_PORTS
            ):
                return f"127.0.0.1:{connection.laddr.port}"
    raise AssertionError("no replica listens")


@pytest.mark.parametrize("way", ["haproxy", "direct"])
async def test_the_final_answer_of_a_stream_is_that_of_retrieve(
    service: Service, token: str, way: str
) -> None:
    address = service.address if way == "haproxy" else replica_address(service)
    said = [*(Transcript(text) for text in PARTIALS), Transcript(QUESTION, final=True)]
    async with AsyncClient(address, tenant="recall", timeout=30) as client:
        stream = client.retrieve_stream(said, briefing=BriefingOptions(), consistency_token=token)
        last = [each async for each in stream][-1]
        unary = await client.retrieve(QUESTION, briefing=BriefingOptions(), consistency_token=token)

    streamed = last.retrieval
    assert (last.final, last.transcript_number) == (True, len(said))
    assert set(states(unary).values()) == {LegState.OK}
    assert states(streamed) == states(unary)
    assert (streamed.hits, streamed.briefing) == (unary.hits, unary.briefing)


@pytest.mark.placement
async def test_answers_come_while_somebody_still_speaks(service: Service, token: str) -> None:
    numbers: list[int] = []

    async def speaking() -> AsyncIterator[Transcript]:
        for number, text in enumerate([*PARTIALS, QUESTION], start=1):
            yield Transcript(text, final=number > len(PARTIALS))
            while number <= len(PARTIALS) and number not in numbers:
                await heard.wait()
                heard.clear()

    heard = asyncio.Event()
    async with AsyncClient(service.address, tenant="recall") as client:
        async for answer in client.retrieve_stream(speaking(), timeout=30):
            numbers.append(answer.transcript_number)
            heard.set()

    assert numbers == [1, 2, 3, 4]


async def test_a_tenant_is_warmed_before_its_first_question(service: Service, token: str) -> None:
    async with AsyncClient(service.address, tenant="recall", timeout=30) as client:
        known = await client.warm()
        unknown = await client.for_tenant("nobody-called").warm()

    assert {each.part for each in known} >= {"names", "lexical", "dense", "graph"}
    assert [each for each in (*known, *unknown) if not each.warm] == []
