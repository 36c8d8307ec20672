"""The log of who changed what.

A store writes an entry in the transaction of the change, so that neither is without the other. Who
makes the change is known where a call is admitted, and not passed through the pipeline, which has
no use for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Actor:
    """Who changes something, by which RPC."""

    caller: str
    rpc: str


_ACTOR: ContextVar[Actor | None] = ContextVar("actor", default=None)


@contextmanager
def acting(actor: Actor) -> Iterator[None]:
    """Has changes within the block logged as those of the actor; outside of one, none are."""
    before = _ACTOR.set(actor)
    try:
        yield
    finally:
        _ACTOR.reset(before)


def present_actor() -> Actor | None:
    """The actor of the block that runs."""
    return _ACTOR.get()


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """What a change was about: a tenant, or a key; counts, and no names, ids or texts of items."""

    tenant: str = ""
    created: int = 0
    updated: int = 0
    erased: int = 0
    key_id: str = ""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A change. `number` grows from each entry to the next."""

    number: int
    at: datetime
    actor: Actor
    changed: Changed


class AuditLog(Protocol):
    """Reads entries, and deletes old ones."""

    async def entries(self, tenant: str, before: int | None, limit: int) -> list[AuditEntry]:
        """Returns entries below the number `before`, the newest first; an empty tenant is all."""

    async def delete_before(self, at: datetime) -> None:
        """Deletes the entries of an earlier time."""
