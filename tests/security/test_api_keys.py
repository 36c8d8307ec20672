from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.domain.identity import ApiKey, KeyText, Role, hash_of_secret
from serving.domain.items.records import TenantName

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
