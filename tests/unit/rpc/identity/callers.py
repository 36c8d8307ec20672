"""Callers of every kind, each with the call that it makes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

from serving.config.settings import AuthSettings
from serving.domain.identity import ApiKey, Caller, KeyText, Role, hash_of_secret
from serving.domain.items.records import TenantName
from serving.rpc.identity.authenticator import Authenticator
from serving.rpc.identity.key_ring import KeyRing
from serving.rpc.identity.web_tokens import WebTokens
from tests.unit.rpc.calling import Call

NOW = datetime(2026, 5, 1, tzinfo=UTC)
OURS, THEIRS = TenantName("ours"), TenantName("theirs")
RULES = AuthSettings(issuer="https://issuer.example", audience="trivium")


def bearer(text: object) -> Call:
    return Call([("authorization", f"Bearer {text}")])


class FakeApiKeys:
    """Keys in memory."""

    def __init__(self) -> None:
        self.stored: list[ApiKey] = []
        self.failing: Exception | None = None

    async def add(self, key: ApiKey) -> None:
        self.stored.append(key)

    async def revoke(self, key_id: str) -> bool:
        found = [key for key in self.stored if key.id == key_id]
        self.stored = [replace(key, revoked_at=NOW) if key in found else key for key in self.stored]
        return bool(found)

    async def all(self) -> list[ApiKey]:
        if self.failing is not None:
            raise self.failing
        return list(self.stored)

    def make(self, *roles: Role, tenant: TenantName | None = OURS, **more: Any) -> KeyText:
        text = KeyText.new()
        self.stored.append(
            ApiKey(
                id=text.id,
                secret_hash=hash_of_secret(text.secret),
                roles=frozenset(roles),
                tenant=tenant,
                created_at=NOW,
                **more,
            )
        )
        return text


class Issuer:
    """Signs tokens."""

    def __init__(self) -> None:
        self.private = generate_private_key(SECP256R1())
        self.failing: Exception | None = None

    def key_set(self) -> dict[str, Any]:
        public = jwt.algorithms.ECAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        return {"keys": [{**public, "kid": "k1", "alg": "ES256"}]}

    def keys(self) -> list[jwt.PyJWK]:
        if self.failing is not None:
            raise self.failing
        return jwt.PyJWKSet.from_dict(self.key_set()).keys

    def claims(self) -> dict[str, object]:
        return {
            "iss": RULES.issuer,
            "aud": RULES.audience,
            "exp": int((datetime.now(UTC) + timedelta(hours=1)).timestamp()),
            "sub": "bot",
            "tenant": OURS,
            "roles": ["reader"],
        }

    def token(self, algorithm: str = "ES256", key: Any = None, **claims: object) -> str:
        given = self.claims() | claims
        given = {name: value for name, value in given.items() if value is not None}
        signed_with = self.private if key is None else key
        return jwt.encode(given, signed_with, algorithm=algorithm, headers={"kid": "k1"})


async def ring_of(keys: FakeApiKeys, now: Callable[[], datetime] = lambda: NOW) -> KeyRing:
    """A ring that has read the keys, and does so no more."""
    ring = KeyRing(keys, now=now, monotonic=lambda: 0.0)
    await ring.refresh()
    return ring


@dataclass(frozen=True)
class Door:
    """A service's authenticator, and callers of each kind."""

    authenticator: Authenticator
    accepted: Mapping[str, tuple[Call, Caller]]
    rejected: Mapping[str, Call]


async def door() -> Door:
    """One that accepts keys and tokens."""
    keys, issuer = FakeApiKeys(), Issuer()
    accepted: dict[str, tuple[Call, Caller]] = {}
    for role in Role:
        for tenant in (OURS, None):
            tenants = None if tenant is None else frozenset({tenant})
            name = f"{role.value} of {tenant or 'all tenants'}"
            caller = Caller(name=name, roles=frozenset({role}), tenants=tenants)
            accepted[f"key, {name}"] = bearer(keys.make(role, tenant=tenant)), caller
            token = issuer.token(roles=role.value, tenant=tenant or "*")
            accepted[f"token, {name}"] = bearer(token), caller
    good = keys.make(Role.ADMIN)
    rejected = {
        "nothing": Call(),
        "blank": Call([("authorization", "")]),
        "basic": Call([("authorization", "Basic YTpi")]),
        "bytes": Call([("authorization", b"Bearer x")]),
        "twice": Call([("authorization", f"Bearer {good}"), ("authorization", "Bearer x")]),
        "key after more spaces": bearer(f" {good}"),
        "key before a space": bearer(f"{good} "),
        "wrong secret": bearer(f"trv_{good.id}_{'A' * 43}"),
        "unknown key": bearer(KeyText.new()),
        "cut key": bearer(str(good)[:-1]),
        "expired key": bearer(keys.make(Role.ADMIN, expires_at=NOW)),
        "revoked key": bearer(keys.make(Role.ADMIN, revoked_at=NOW)),
        "token of a outsider": bearer(Issuer().token(roles="admin", tenant="*")),
        "token without a signature": bearer(issuer.token("none", key="", roles="admin")),
        "token signed by a secret": bearer(issuer.token("HS256", key=b"0" * 32, roles="admin")),
        "expired token": bearer(issuer.token(exp=1)),
        "token without an end": bearer(issuer.token(exp=None)),
        "token with a text as its end": bearer(issuer.token(exp="99999999999")),
        "token with an infinite end": bearer(issuer.token(exp=math.inf)),
        "token with a list as its begin": bearer(issuer.token(nbf=[1])),
        "token with a text as its time": bearer(issuer.token(iat="now")),
        "token with a number as its subject": bearer(issuer.token(sub=1)),
        "token with more in its signature": bearer(issuer.token() + "!!!!"),
        "token with a line in its signature": bearer(issuer.token() + "\n"),
        "token of another issuer": bearer(issuer.token(iss="https://other.example")),
        "token for another service": bearer(issuer.token(aud="other")),
        "token without a tenant": bearer(issuer.token(tenant=None)),
        "token without a role": bearer(issuer.token(roles=None)),
        "token with an unknown role": bearer(issuer.token(roles=["owner"])),
        "no token": bearer("a.b.c"),
    }
    ring = await ring_of(keys)
    tokens = WebTokens(issuer.keys, RULES)
    await tokens.refresh()
    authenticator = Authenticator(keys=ring.verify, tokens=tokens.verify)
    return Door(authenticator, accepted, rejected)
