"""API keys: stored as hashes, made and revoked by the command."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner, Result

from serving.__main__ import main
from serving.adapters.postgres.assembly import Postgres
from serving.domain.errors import UnauthenticatedError
from serving.domain.identity import ApiKey, KeyText, Role, hash_of_secret
from serving.domain.items.records import TenantName
from serving.rpc.identity.key_ring import KeyRing

pytestmark = pytest.mark.postgres
NOW = datetime(2026, 5, 1, 12, 30, tzinfo=UTC)


def key(text: KeyText, tenant: str | None = "acme") -> ApiKey:
    return ApiKey(
        id=text.id,
        secret_hash=hash_of_secret(text.secret),
        roles=frozenset({Role.READER, Role.WRITER}),
        tenant=None if tenant is None else TenantName(tenant),
        note="the bot",
        created_at=NOW,
        expires_at=NOW + timedelta(days=1),
    )


async def test_a_key_is_read_as_it_was_stored(postgres: Postgres) -> None:
    first, second = key(KeyText.new()), key(KeyText.new(), tenant=None)
    second = replace(second, created_at=NOW + timedelta(seconds=1), expires_at=None)

    await postgres.api_keys.add(second)
    await postgres.api_keys.add(first)

    assert await postgres.api_keys.all() == [first, second]


async def test_a_revoked_key_accepts_its_secret_no_more(postgres: Postgres) -> None:
    text = KeyText.new()
    await postgres.api_keys.add(key(text))

    assert await postgres.api_keys.revoke(text.id)
    (revoked,) = await postgres.api_keys.all()
    assert await postgres.api_keys.revoke(text.id)
    assert await postgres.api_keys.all() == [revoked]

    assert revoked.revoked_at is not None
    assert not revoked.accepts(text.secret, NOW)


async def test_a_key_that_does_not_exist_cannot_be_revoked(postgres: Postgres) -> None:
    assert not await postgres.api_keys.revoke("0" * 16)


def command(dsn: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["keys", *arguments], env={"TRIVIUM_POSTGRES__DSN": dsn})


def test_key_is_shown_once_and_listed_without_secret(postgres_dsn: str) -> None:
    made = command(
        *(postgres_dsn, "create", "--tenant", "acme", "--role", "reader", "--days", "9"),
        *("--note", "the bot"),
    )
    # The secret may itself contain underscores.
    _, key_id, secret = made.output.strip().split("_", maxsplit=2)

    listed = command(postgres_dsn, "list").output
    assert re.fullmatch(
        rf"{key_id}  reader  tenant 'acme'  expires \d{{4}}-\d\d-\d\d  'the bot'\n", listed
    )
    assert secret not in listed
    assert command(postgres_dsn, "revoke", key_id).exit_code == 0
    assert "revoked" in command(postgres_dsn, "list").output
    assert command(postgres_dsn, "revoke", "0" * 16).exit_code == 1


async def test_the_service_accepts_a_key_until_it_is_revoked(postgres: Postgres) -> None:
    dsn = postgres.database.dsn
    made = await asyncio.to_thread(command, dsn, "create", "--all-tenants", "--role", "writer")
    key = made.output.strip()
    ring = KeyRing(postgres.api_keys)
    await ring.refresh()
    assert ring.verify(key).roles == frozenset({Role.WRITER})

    await asyncio.to_thread(command, dsn, "revoke", key.split("_")[1])
    await ring.refresh()

    with pytest.raises(UnauthenticatedError):
        ring.verify(key)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--role", "reader"],
        ["--tenant", "a", "--all-tenants", "--role", "reader"],
        ["--tenant", "a"],
    ],
)
def test_a_key_for_nobody_in_particular_is_not_made(arguments: list[str]) -> None:
    assert command("host=/nowhere", "create", *arguments).exit_code == 2
