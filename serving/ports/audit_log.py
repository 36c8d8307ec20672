"""The log of who changed what.

A store writes an entry in the transaction of the change, so that neither is without the other. Who
makes the change is known where a call is admitted, and not passed through the pipeline, which has
no use for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol


class Actor(NamedTuple):
    """The author of changes, and the RPC."""

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


class AuditEntry(NamedTuple):
    """A change: counts of items, or the key that was made or revoked; no names, ids or texts.

    `number` grows from each entry to the next.
    """

    number: int
    at: datetime
    caller: str
    rpc: str
    tenant: str
    created: int
    updated: int
    erased: int
    key_id: str


class AuditLog(Protocol):
    """Reads entries, and deletes old ones."""

    async def entries(self, tenant: str, before: int | None, limit: int) -> list[AuditEntry]:
        """Returns entries below the number `before`, the newest first; an empty tenant is all."""

    async def delete_older(self, age: timedelta) -> None:
        """Deletes the entries that are older."""
