"""A server whose disk is full, or whose connections others have, says so and recovers."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.migrations import migrate
from serving.desk.embedded_postgres import EmbeddedPostgres
from serving.domain.errors import StoreUnavailableError
from tests.fixtures.postgres import QUICK
from tests.integration.postgres.log.following import write
from tests.support.builders import TENANT, ids, segment
from tests.support.disk import Disk
from tests.support.waiting import until_async

pytestmark = pytest.mark.postgres

LARGE_TEXT_WORDS = 10_000


@pytest.fixture
def disk(short_directory: Path) -> Iterator[Disk]:
    disk = Disk(short_directory / "disk")
    disk.mount()
    yield disk
    disk.unmount()


def large_text() -> str:
    return " ".join(f"{random.getrandbits(64):x}" for _ in range(LARGE_TEXT_WORDS))


async def write_until_refused(postgres: Postgres, acknowledged: list[str]) -> None:
    for number in count():
        await write(postgres, segment(f"{number}", large_text()))
        acknowledged.append(f"{number}")


async def test_a_full_disk_refuses_writes_loses_none_and_recovers(disk: Disk) -> None:
    with EmbeddedPostgres(disk.root / "server", settings=QUICK) as dsn:
        await migrate(dsn)
        async with Postgres(dsn) as postgres:
            await write(postgres, segment("before", large_text()))
            disk.fill()
            acknowledged = ["before"]

            with pytest.raises(StoreUnavailableError, match="DiskFull, SQLSTATE 53100"):
                await write_until_refused(postgres, acknowledged)

            refused = f"{len(acknowledged) - 1}"
            assert await postgres.store.count(TENANT, ids(*acknowledged)) == len(acknowledged)
            assert await postgres.store.count(TENANT, ids(refused)) == 0
            disk.free()
            again = await write(postgres, segment(refused, large_text()))
            assert again.outcomes == ["created"]


def take_all_connections(dsn: str, taken: contextlib.ExitStack) -> None:
    while True:
        taken.enter_context(psycopg.connect(dsn))


async def test_full_server_is_reported_and_calls_recover(short_directory: Path) -> None:
    settings = {**QUICK, "max_connections": "10"}
    with EmbeddedPostgres(short_directory / "connections", settings=settings) as dsn:
        await migrate(dsn)
        with contextlib.ExitStack() as others:
            with pytest.raises(psycopg.OperationalError, match="too many clients"):
                take_all_connections(dsn, others)
            async with Postgres(dsn, work_connections=1, search_connections=1) as postgres:
                assert not await postgres.store.ready()
                with pytest.raises(StoreUnavailableError, match="no connection could be made"):
                    await write(postgres, segment("a"))

                others.close()

                await until_async(postgres.store.ready)
                await write(postgres, segment("a"))
                assert await postgres.store.count(TENANT, ids("a")) == 1
