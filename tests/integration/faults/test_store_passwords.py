"""The passwords of the stores are shown nowhere, also while the stores cannot be reached."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from serving.desk.embedded_postgres import EmbeddedPostgres
from serving.desk.ray_environment import free_ports
from tests.fixtures.local_service import local_service
from tests.fixtures.postgres import QUICK
from tests.support.waiting import until_async
from trivium import Health, Segment
from trivium.aio import AsyncClient
from trivium.errors import UnavailableError

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(300)]

PASSWORD = "swordfish-of-the-stores"


async def test_passwords_of_stores_are_in_no_output(
    short_directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("TRIVIUM_NEO4J__PASSWORD", PASSWORD)
    postgres = EmbeddedPostgres(short_directory / "late", settings=QUICK)
    dsn = await asyncio.to_thread(postgres.start)
    await asyncio.to_thread(postgres.stop)
    without_neo4j = f"bolt://127.0.0.1:{free_ports(1)}"
    async with local_service(make_conninfo(dsn, password=PASSWORD), without_neo4j) as memory:
        with pytest.raises(UnavailableError) as refused:
            await memory.retrieve("Who hired Tom?")
        await asyncio.to_thread(postgres.start)
        try:
            await until_async(lambda: _serves(memory))
            await memory.ingest([Segment(id="t1", text="Lotus Books hired Tom.")])
            answer = await memory.retrieve("Who hired Tom?", explain=True)
            stats = await memory.stats()
        finally:
            await asyncio.to_thread(postgres.stop)

    assert any(said.startswith("graph") for said in stats.service.degraded)
    shown = [refused.value, vars(refused.value), answer, stats, caplog.text]
    shown += [vars(record) for record in caplog.records]
    assert [each for each in shown if PASSWORD in str(each)] == []


async def _serves(memory: AsyncClient) -> bool:
    return await memory.check() is Health.SERVING
