"""The audit log: an entry for each change, in its transaction, that outlasts what it is about."""

from __future__ import annotations

from datetime import timedelta

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.errors import StatementRejectedError
from serving.domain.identity import ApiKey, Role
from serving.domain.items.records import TenantName, segment_id
from serving.pipeline.writes.expiry import SWEEPER
from serving.ports.audit_log import Actor, AuditEntry, acting
from serving.ports.memory_store import Batch, Selector
from tests.integration.postgres.log.following import run
from tests.support.builders import NOON, TENANT, batch_of, fact, segment

pytestmark = pytest.mark.postgres

INGEST, FORGET = Actor("key a1", "Ingest"), Actor("token of Ann", "Forget")
SECRET = "The code of the safe is 4711."
FAILING = """
    CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'no entry'; END $$;
    CREATE TRIGGER fail BEFORE INSERT ON audit_entry EXECUTE FUNCTION fail()
"""


async def entries(postgres: Postgres, tenant: str = "") -> list[AuditEntry]:
    return await postgres.audit_log.entries(tenant, None, 100)


async def test_writes_are_logged_by_their_changes(postgres: Postgres) -> None:
    with acting(INGEST):
        await postgres.store.write(batch_of(segment("a"), fact("f", "Ann", "likes", "Goa")))
        await postgres.store.write(batch_of(segment("a", SECRET), segment("b")))
        await postgres.store.write(batch_of(segment("b")))
    await postgres.store.write(batch_of(segment("c")))

    second, first = await entries(postgres)

    assert first[2:] == (*INGEST, TENANT, 2, 0, 0, "")
    assert second[2:] == (*INGEST, TENANT, 1, 1, 0, "")
    assert first.number < second.number
    assert first.at <= second.at


async def test_entry_outlasts_the_erased_tenant_without_contents(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(segment("id-of-a", SECRET), segment("b")))
    with acting(FORGET):
        await postgres.store.erase(TENANT, Selector(items=(segment_id("id-of-a"),)))
        await postgres.store.erase(TENANT, Selector(everything=True))
        await postgres.store.erase(TENANT, Selector(everything=True))

    found = await entries(postgres, TENANT)

    assert [each.erased for each in found] == [0, 1, 1]
    assert {(each.caller, each.rpc) for each in found} == {FORGET}
    rows = await run(postgres, "SELECT audit_entry::text FROM audit_entry")
    assert len(rows) == 3
    assert "id-of-a" not in str(rows)
    assert SECRET not in str(rows)


async def test_sweep_that_erases_nothing_is_not_logged(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(segment("a", expires_at=NOON)))
    expired = Selector(items=(segment_id("a"),), expired_by=NOON + timedelta(days=1))
    with acting(SWEEPER):
        await postgres.store.erase(TENANT, expired)
        await postgres.store.erase(TENANT, expired)

    assert [(*each[2:4], each.erased) for each in await entries(postgres)] == [(*SWEEPER, 1)]


async def test_change_without_its_entry_is_not_made(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(segment("a")))
    _, key = ApiKey.new(frozenset({Role.READER}), TENANT, NOON)
    await run(postgres, FAILING)

    with acting(INGEST):
        with pytest.raises(StatementRejectedError):
            await postgres.store.write(batch_of(segment("b")))
        with pytest.raises(StatementRejectedError):
            await postgres.store.erase(TENANT, Selector(everything=True))
        with pytest.raises(StatementRejectedError):
            await postgres.api_keys.add(key)

    assert await postgres.store.count(TENANT, [segment_id("a"), segment_id("b")]) == 1
    assert await postgres.api_keys.all() == []


async def test_keys_are_logged_when_made_and_first_revoked(postgres: Postgres) -> None:
    _, bound = ApiKey.new(frozenset({Role.READER}), TENANT, NOON)
    _, of_all = ApiKey.new(frozenset({Role.ADMIN}), None, NOON)
    with acting(Actor("anyone", "CreateKey")):
        await postgres.api_keys.add(bound)
        await postgres.api_keys.add(of_all)
    with acting(Actor("anyone", "RevokeKey")):
        assert await postgres.api_keys.revoke(bound.id)
        assert await postgres.api_keys.revoke(bound.id)
        assert not await postgres.api_keys.revoke("nobody")

    found = [(each.rpc, each.tenant, each.key_id) for each in await entries(postgres)]

    assert found == [
        ("RevokeKey", TENANT, bound.id),
        ("CreateKey", "", of_all.id),
        ("CreateKey", TENANT, bound.id),
    ]


async def test_entries_come_in_pages_of_a_tenant(postgres: Postgres) -> None:
    for place in range(5):
        tenant = TenantName("other") if place == 2 else TENANT
        with acting(Actor(f"key {place}", "Ingest")):
            await postgres.store.write(Batch(tenant, [segment(str(place))]))

    first = await postgres.audit_log.entries(TENANT, None, 3)
    second = await postgres.audit_log.entries(TENANT, first[-1].number, 3)

    callers = [each.caller for each in (*first, *second)]
    assert callers == ["key 4", "key 3", "key 1", "key 0"]


async def test_only_old_entries_are_deleted(postgres: Postgres) -> None:
    with acting(INGEST):
        await postgres.store.write(batch_of(segment("a")))
        await postgres.store.write(batch_of(segment("b")))
    await run(
        postgres,
        "UPDATE audit_entry SET at = at - interval '91 days'"
        " WHERE number = (SELECT min(number) FROM audit_entry)",
    )

    await postgres.audit_log.delete_older(timedelta(days=90))

    assert [each.created for each in await entries(postgres)] == [1]
