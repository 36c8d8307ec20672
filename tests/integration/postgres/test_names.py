"""The names of entities, kept in memory by each process."""

from __future__ import annotations

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.domain.budget import Deadline
from serving.domain.records import TenantName, segment_id
from serving.ports import Selector
from tests.builders import TENANT, segment

pytestmark = pytest.mark.postgres


async def test_names_written_by_another_process_are_known_at_once(
    postgres: Postgres, postgres_dsn: str
) -> None:
    async with Postgres(postgres_dsn) as other:
        await postgres.store.write(TENANT, [segment("a", entities=("Goa",))])
        before = dict(await other.store.known_names(TENANT))

        await postgres.store.write(TENANT, [segment("b", entities=("Rome", "Goa"))])

        assert before == {"goa": "Goa"}
        assert await other.store.known_names(TENANT) == {"goa": "Goa", "rome": "Rome"}


async def test_a_name_committed_late_is_not_missed(postgres: Postgres) -> None:
    await postgres.store.write(TENANT, [segment("a")])
    async with postgres.database.transaction() as slow:
        await slow.execute("INSERT INTO entity SELECT id, 'slow', 'Slow' FROM tenant")
        await postgres.store.write(TENANT, [segment("b", entities=("Quick",))])
        during = dict(await postgres.store.known_names(TENANT))

    assert during == {"quick": "Quick"}
    assert await postgres.store.known_names(TENANT) == {"quick": "Quick", "slow": "Slow"}


@pytest.mark.parametrize(
    "selector", [Selector(items=(segment_id("a"),)), Selector(everything=True)]
)
async def test_names_erased_by_another_process_are_forgotten_at_once(
    postgres: Postgres, postgres_dsn: str, selector: Selector
) -> None:
    async with Postgres(postgres_dsn) as other:
        await postgres.store.write(TENANT, [segment("a", entities=("Goa",))])
        await other.store.known_names(TENANT)

        await postgres.store.erase(TENANT, selector)
        await postgres.store.write(TENANT, [segment("b", entities=("Rome",))])

        assert await other.store.known_names(TENANT) == {"rome": "Rome"}


async def test_memory_for_names_is_bounded(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.adapters.postgres.names.MOST_NAMES", 2)
    tenants = [TenantName(name) for name in "abc"]
    for tenant in tenants:
        await postgres.store.write(tenant, [segment("a", entities=(f"Goa {tenant}", "Rome"))])

    for tenant in tenants * 2:
        assert len(await postgres.store.known_names(tenant)) == 2


async def test_names_that_take_longer_to_read_than_a_question_has_are_there_for_the_next(
    postgres: Postgres, postgres_dsn: str
) -> None:
    await postgres.store.write(TENANT, [segment("a", entities=("Melanie",))])
    async with Postgres(postgres_dsn, work_connections=1) as other:
        async with other.database.work():  # so that none is left to read with
            with pytest.raises(TimeoutError):
                await other.names.meant(TENANT, ["Melony"], Deadline.after(0.05))

        async with other.database.work():  # lent after it was lent to the reading
            heard = await other.names.meant(TENANT, ["Melony"], Deadline.after(1))

    assert heard == {"Melony": "Melanie"}
