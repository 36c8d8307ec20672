"""Callers and their rights."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Self

from serving.domain.errors import PermissionDeniedError
from serving.domain.items.records import TenantName

_KEY = re.compile(r"trv_(?P<id>[0-9a-f]{16})_(?P<secret>[\w-]{43})", re.ASCII)


class Role(StrEnum):
    """The rights of a caller within its tenants."""

    READER = "reader"
    WRITER = "writer"
    ERASER = "eraser"
    ADMIN = "admin"
    """Everything, and the figures of the service that cover all tenants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """An authenticated caller. `name` is for logs; `tenants` None means all tenants."""

    name: str
    roles: frozenset[Role]
    tenants: frozenset[TenantName] | None

    def has(self, role: Role) -> bool:
        """Whether the caller has the role."""
        return role in self.roles or Role.ADMIN in self.roles

    def require(self, role: Role) -> None:
        """Raises `PermissionDeniedError` for a caller without the role."""
        if not self.has(role):
            raise PermissionDeniedError(f"this call needs the role {role.value}")

    def tenant(self, named: str) -> str:
        """The tenant of a request: the one named, or the only one of the caller.

        Raises `PermissionDeniedError` if the caller may not name it.
        """
        if self.tenants is None:
            return named
        if not named and len(self.tenants) == 1:
            return next(iter(self.tenants))
        if named not in self.tenants:
            # The same for a tenant that exists and one that does not.
            raise PermissionDeniedError("the credentials are for another tenant")
        return named


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A stored API key: a hash of its secret, and what it allows.

    The secret has 256 random bits, so a plain SHA-256 protects it; a slow hash is for passwords.
    """

    id: str
    secret_hash: bytes = field(repr=False)
    roles: frozenset[Role]
    tenant: TenantName | None
    """None: all tenants."""
    note: str = ""
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    @classmethod
    def new(
        cls,
        roles: frozenset[Role],
        tenant: TenantName | None,
        now: datetime,
        *,
        note: str = "",
        expires_at: datetime | None = None,
    ) -> tuple[KeyText, Self]:
        """A new random key as its owner has it, and as it is stored."""
        text = KeyText.new()
        key = cls(
            id=text.id,
            secret_hash=hash_of_secret(text.secret),
            roles=roles,
            tenant=tenant,
            note=note,
            created_at=now,
            expires_at=expires_at,
        )
        return text, key

    @property
    def caller(self) -> Caller:
        """The caller that this key authenticates."""
        tenants = None if self.tenant is None else frozenset({self.tenant})
        return Caller(name=f"key {self.id}", roles=self.roles, tenants=tenants)

    def accepts(self, secret: str, now: datetime) -> bool:
        """Whether the secret is that of this key, and the key is valid; in constant time."""
        is_same = hmac.compare_digest(hash_of_secret(secret), self.secret_hash)
        in_time = self.expires_at is None or now < self.expires_at
        return is_same and in_time and self.revoked_at is None


@dataclass(frozen=True, slots=True)
class KeyText:
    """A key as its owner has it: `trv_<id>_<secret>`. The id is not secret."""

    id: str
    secret: str = field(repr=False)

    @classmethod
    def new(cls) -> KeyText:
        """A new random key."""
        return cls(secrets.token_hex(8), secrets.token_urlsafe(32))

    @classmethod
    def parse(cls, text: str) -> KeyText | None:
        """Reads a key; None if the text is not one."""
        found = _KEY.fullmatch(text)
        return None if found is None else cls(found["id"], found["secret"])

    def __str__(self) -> str:
        return f"trv_{self.id}_{self.secret}"


def hash_of_secret(secret: str) -> bytes:
    """SHA-256 of the secret of a key."""
    return hashlib.sha256(secret.encode()).digest()
