"""A program of the schema before the last goes on while a newer one migrates the database.

Its statements are those of today. They name one column of the last migration, which is therefore
there before; apart from that they run on the schema before it, or this test fails at its start.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.migrations import latest_version
from serving.adapters.postgres.migration import migrate
from serving.adapters.postgres.writes.erasure import erase_selected
from serving.domain.items.records import fact_id, segment_id
from serving.ports.memory_store import Selector
from tests.integration.postgres.log.following import (
    embed,
    migrate_to_before,
    project_graph,
    scalar,
    waits_for_lock,
)
from tests.support.builders import TENANT, batch_of, fact, segment
from tests.support.waiting import until_async

pytestmark = pytest.mark.postgres


@dataclass(frozen=True, slots=True)
class OldProgram:
    """Writes, projects and erases: all that changes tables."""

    postgres: Postgres

    async def work(self, name: str) -> None:
        """Leaves the segment `name` and a fact of this name, and erases others."""
        store, gone = self.postgres.store, f"{name}-gone"
        for text in ("We moor in Ostia.", "We moor in Goa."):
            said = [segment(each, text, entities=("Goa",)) for each in (gone, name)]
            known = [fact(each, "Ann", "likes", "Goa", evidence=(each,)) for each in (gone, name)]
            await store.write(batch_of(*said, *known))
        await embed(self.postgres)
        await project_graph(self.postgres)
        self.postgres.access.record(TENANT, [segment_id(gone), fact_id(gone)])
        await self.postgres.access.flush()
        erased = await store.erase(TENANT, Selector(items=(segment_id(gone),)))
        assert sorted(erased.items) == [fact_id(gone), segment_id(gone)]


@pytest.fixture
async def old_dsn(empty_dsn: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database with the schema before the last that changes a table."""
    await migrate_to_before(empty_dsn, "time_zone", monkeypatch)
    return empty_dsn


async def test_an_older_program_loses_nothing_while_a_newer_one_migrates(old_dsn: str) -> None:
    async with Postgres(old_dsn) as adapters:
        old = OldProgram(adapters)
        await old.work("before")  # its connections are open, and its statements are prepared

        async with adapters.database.transaction() as connection:
            # An erasure has locked segments and facts, and not yet what is derived from them.
            await connection.execute("SELECT FROM tenant WHERE false")
            await connection.execute("DELETE FROM segment WHERE false")
            await connection.execute("DELETE FROM fact WHERE false")
            migrating = asyncio.create_task(migrate(old_dsn))
            await until_async(lambda: waits_for_lock(adapters))
            working = asyncio.create_task(old.work("during"))
            await erase_selected(connection, TENANT, Selector(items=(segment_id("before"),)))
        await asyncio.gather(migrating, working)
        await old.work("after")

        async with Postgres(old_dsn) as new, new.database.work() as connection:
            assert await scalar(connection, "SELECT schema_version FROM meta") == latest_version()
            items = [item(name) for name in ("during", "after") for item in (segment_id, fact_id)]
            assert await new.store.count(TENANT, items) == len(items)
            for table, rows in (("segment", 2), ("fact", 2), ("embedding", 4)):
                assert await scalar(connection, f"SELECT count(*) FROM {table}") == rows
            # The newer program reads the turns, in a table that the older one does not know.
            await connection.execute("INSERT INTO extraction SELECT key, text_hash FROM segment")
            erased = await adapters.store.erase(TENANT, Selector(everything=True))
            assert sorted(erased.items) == sorted(items)
            assert await scalar(connection, "SELECT count(*) FROM extraction") == 0
