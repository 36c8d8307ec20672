"""The service with the embeddings of another service, which goes away and comes back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bench.speed.ingest import only
from serving.composition.models import open_embedder
from serving.config.settings import load_settings
from serving.telemetry import NoRecorder
from tests.fakes.meaning import FAKE_MODEL
from tests.fakes.simulation.openai_api import EmbeddingsServer, answering, serving
from tests.fixtures.local_service import local_service
from tests.support.answers import states
from tests.support.waiting import until_async
from trivium import Segment
from trivium.aio import AsyncClient
from trivium.values import LegState

pytestmark = [pytest.mark.postgres, pytest.mark.neo4j, pytest.mark.timeout(600)]

SAID = Segment(id="t1", speaker="Mara", text="We sailed to Goa.")
SECRET = Segment(id="t2", speaker="Mara", text="My number is 4711.", sensitive=True)
POISON = Segment(id="t3", speaker="Mara", text="A poison for the model.")


@asynccontextmanager
async def service_with_api(
    dsn: str, neo4j_uri: str, server: EmbeddingsServer
) -> AsyncIterator[AsyncClient]:
    api = {"url": server.url, "key": "a-key"}
    settings = load_settings(
        {"embedder": {"model": "some-model", "dimension": FAKE_MODEL.dimension, "api": api}}
    )
    async with (
        open_embedder(settings, NoRecorder()) as embedder,
        local_service(dsn, neo4j_uri, embedder=embedder) as memory,
    ):
        yield memory


async def test_meaning_is_found_by_the_vectors_of_another_service(
    postgres_dsn: str, neo4j_uri: str
) -> None:
    async with (
        serving(EmbeddingsServer()) as server,
        service_with_api(postgres_dsn, neo4j_uri, server) as memory,
    ):
        server.refused = "poison"
        token = (await memory.ingest([SAID, SECRET, POISON])).consistency_token
        answer = await memory.retrieve(
            "Where did we sail?", consistency_token=token, leg_overrides=only("dense")
        )
        stats = await memory.stats()

    assert [hit.id for hit in answer.hits] == ["t1"]
    assert [row.item.id for row in stats.dead_letters] == ["t3"]
    assert not any("4711" in text for text in server.texts)
    assert set(server.keys) == {"Bearer a-key"}


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (500, "status 500; check the address, the key"),
        (429, "the embeddings API is full, try again in 1 s"),
    ],
)
async def test_unavailable_embeddings_api_loses_no_write(
    postgres_dsn: str, neo4j_uri: str, status: int, reason: str
) -> None:
    async with (
        serving(EmbeddingsServer()) as server,
        service_with_api(postgres_dsn, neo4j_uri, server) as memory,
    ):
        server.answer = answering(status)
        token = (await memory.ingest([SAID])).consistency_token
        without = await memory.retrieve("Who sailed to Goa?")

        server.answer = None

        async def dense_is_ok() -> bool:
            alone = await memory.retrieve(
                "Who sailed to Goa?", consistency_token=token, leg_overrides=only("dense")
            )
            return states(alone)["dense"] is LegState.OK

        await until_async(dense_is_ok)
        stats = await memory.stats()

    assert states(without)["dense"] is LegState.FAILED
    dense = next(each for each in without.leg_reports if each.leg == "dense")
    assert reason in dense.reason
    assert [hit.id for hit in without.hits] == ["t1"]
    assert stats.dead_letters == ()
