"""The values of administration: tenants, API keys, and the log of changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class Role(StrEnum):
    """The rights of a caller within its tenants; `UNKNOWN` is one of a later service."""

    READER = "reader"
    WRITER = "writer"
    ERASER = "eraser"
    ADMIN = "admin"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A tenant, with what it holds.

    `text_bytes` are those of texts of segments and sentences of facts, `newest_event_time` is that
    of the latest segment that is not sensitive, and `updated_at` the time of the last write.
    """

    name: str
    segment_count: int
    fact_count: int
    text_bytes: int
    newest_event_time: datetime | None
    updated_at: datetime | None
    text_search_config: str
    time_zone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """An API key without its secret; an empty `tenant` means all tenants."""

    id: str
    roles: frozenset[Role]
    tenant: str
    note: str
    created_at: datetime | None
    expires_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A new API key: `secret` is what its owner sends as a token. It is shown only now."""

    secret: str = field(repr=False)
    key: ApiKey


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """A change, and who made it: counts, or the key that was made or revoked."""

    at: datetime | None
    caller: str
    rpc: str
    tenant: str
    created_count: int
    updated_count: int
    erased_count: int
    key_id: str
