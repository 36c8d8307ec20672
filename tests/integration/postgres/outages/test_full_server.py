"""A server whose disk is full, or whose connections others have, says so and recovers."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import psycopg
import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.migration import migrate
from serving.desk.embedded_postgres import EmbeddedPostgres
from serving.domain.errors import StoreUnavailableError
from serving.ports.memory_store import Batch
from tests.fixtures.postgres import QUICK
from tests.integration.postgres.log.following import eventually
from tests.support.builders import TENANT, ids, segment

pytestmark = pytest.mark.postgres

AMPLE_BYTES = 1 << 30
LARGE_TEXT_WORDS = 10_000


@dataclass(frozen=True, slots=True)
class Disk:
    """A file system of its own, in memory."""

    root: Path

    def mount(self) -> None:
        """Mounts it, or skips the test."""
        if os.geteuid() != 0:
            pytest.skip("only root can mount a file system of its own")
        self.root.mkdir()
        options = f"size={AMPLE_BYTES},mode=755"
        command = ["mount", "-t", "tmpfs", "-o", options, "test", str(self.root)]
        mounted = subprocess.run(command, capture_output=True, text=True)
        if mounted.returncode:
            pytest.skip(f"a file system cannot be mounted here: {mounted.stderr.strip()}")

    def fill(self) -> None:
        """Leaves no room for anything further."""
        usage = os.statvfs(self.root)
        self._resize((usage.f_blocks - usage.f_bfree) * usage.f_frsize)

    def free(self) -> None:
        self._resize(AMPLE_BYTES)

    def unmount(self) -> None:
        subprocess.run(["umount", self.root], check=True)

    def _resize(self, size: int) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", self.root], check=True)


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
        await postgres.store.write(Batch(TENANT, [segment(f"{number}", large_text())]))
        acknowledged.append(f"{number}")


async def test_a_full_disk_refuses_writes_loses_none_and_recovers(disk: Disk) -> None:
    with EmbeddedPostgres(disk.root / "server", settings=QUICK) as dsn:
        await migrate(dsn)
        async with Postgres(dsn) as postgres:
            await postgres.store.write(Batch(TENANT, [segment("before", large_text())]))
            disk.fill()
            acknowledged = ["before"]

            with pytest.raises(StoreUnavailableError, match="DiskFull, SQLSTATE 53100"):
                await write_until_refused(postgres, acknowledged)

            refused = f"{len(acknowledged) - 1}"
            assert await postgres.store.count(TENANT, ids(*acknowledged)) == len(acknowledged)
            assert await postgres.store.count(TENANT, ids(refused)) == 0
            disk.free()
            again = await postgres.store.write(Batch(TENANT, [segment(refused, large_text())]))
            assert again.outcomes == ["created"]


def take_all_connections(dsn: str, taken: contextlib.ExitStack) -> None:
    while True:
        taken.enter_context(psycopg.connect(dsn))


async def test_full_server_is_reported_and_calls_recover(
    short_directory: Path,
) -> None:
    settings = {**QUICK, "max_connections": "10"}
    with EmbeddedPostgres(short_directory / "connections", settings=settings) as dsn:
        await migrate(dsn)
        with contextlib.ExitStack() as others:
            with pytest.raises(psycopg.OperationalError, match="too many clients"):
                take_all_connections(dsn, others)
            async with Postgres(dsn, work_connections=1, search_connections=1) as postgres:
                assert not await postgres.store.ready()
                with pytest.raises(StoreUnavailableError, match="no connection could be made"):
                    await postgres.store.write(Batch(TENANT, [segment("a")]))

                others.close()

                assert await eventually(postgres.store.ready)
                await postgres.store.write(Batch(TENANT, [segment("a")]))
                assert await postgres.store.count(TENANT, ids("a")) == 1
