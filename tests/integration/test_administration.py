"""What an administrator sees of a service that is used, and does with its keys."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.composition.index import SpaceParts
from serving.composition.service import running_service
from serving.config.settings import load_settings
from serving.domain.identity import ApiKey, Role
from tests.fakes.meaning import FakeEmbedder
from tests.fixtures.local_service import FOLLOW_WITHIN_S, listening
from tests.support.builders import NOON
from trivium import AuthenticationError, Fact, Segment
from trivium import Role as ClientRole
from trivium.aio import AsyncClient

pytestmark = [pytest.mark.postgres, pytest.mark.neo4j]


@pytest.fixture
async def administrated(
    postgres: Postgres, postgres_dsn: str, neo4j_uri: str
) -> AsyncIterator[tuple[str, AsyncClient]]:
    """The address of a service that accepts keys, and its administrator."""
    text, key = ApiKey.new(frozenset({Role.ADMIN}), None, NOON, note="administration")
    await postgres.api_keys.add(key)
    settings = load_settings(
        {"postgres": {"dsn": postgres_dsn}, "neo4j": {"uri": neo4j_uri}, "auth": {"keys": True}}
    )
    parts = SpaceParts(FakeEmbedder(), None)
    async with (
        running_service(settings, space=parts, warm_up_s=1) as service,
        listening(service) as address,
        AsyncClient(address, tenant="acme", token=str(text), timeout=10) as client,
    ):
        yield address, client


async def admitted(client: AsyncClient, *, until: bool) -> None:
    """Waits until the service accepts a key, or rejects it."""
    async with asyncio.timeout(FOLLOW_WITHIN_S):
        while True:
            try:
                await client.stats()
            except AuthenticationError:
                if not until:
                    return
            else:
                if until:
                    return


async def test_made_key_writes_until_revoked_and_is_logged(
    administrated: tuple[str, AsyncClient],
) -> None:
    address, administrator = administrated
    own = [key.id async for key in administrator.list_keys()]
    made = await administrator.create_key(
        [ClientRole.READER, ClientRole.WRITER, ClientRole.ERASER], tenant="acme", note="the bot"
    )
    bot = AsyncClient(address, token=made.secret, timeout=10)
    async with bot:
        await admitted(bot, until=True)
        await bot.ingest([Segment(id="a", text="Goa", event_time=NOON), Segment(id="b", text="x")])
        await bot.ingest([Fact(id="f", subject="Ann", relation="likes", object="Goa")])
        with pytest.raises(AuthenticationError):
            await anext(bot.list_tenants())

        (tenant,) = [each async for each in administrator.list_tenants()]
        await bot.forget(everything=True)
        await administrator.revoke_key(made.key.id)
        await admitted(bot, until=False)

    assert (tenant.name, tenant.segment_count, tenant.fact_count) == ("acme", 2, 1)
    assert tenant.updated_at is not None
    assert [key.id async for key in administrator.list_keys()] == [made.key.id, *own]
    assert [each async for each in administrator.list_tenants()] == []
    log = [
        (each.caller, each.rpc, each.created_count, each.erased_count, each.key_id)
        async for each in administrator.list_audit_entries()
    ]
    admin, caller = f"key {own[0]}", f"key {made.key.id}"
    assert log == [
        (admin, "RevokeKey", 0, 0, made.key.id),
        (caller, "Forget", 0, 3, ""),
        (caller, "Ingest", 1, 0, ""),
        (caller, "Ingest", 2, 0, ""),
        (admin, "CreateKey", 0, 0, made.key.id),
    ]
