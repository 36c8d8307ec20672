"""The source of tenants in memory: all of a tenant, then the changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from serving.domain.consistency import Snapshot
from serving.domain.items.records import Item, ItemId, TenantName


@dataclass(frozen=True, slots=True)
class ResidentRow:
    """An item that is not hidden; of a segment its words, and how many distinct ones it has.

    `tsvector` is PostgreSQL's text form.
    """

    item: Item
    tsvector: str = ""
    length: int = 0


@dataclass(frozen=True, slots=True)
class TenantContent:
    """All rows of a tenant that are not hidden, in the order of their first writing.

    `has_hidden` is whether the tenant has others; `text_search_config` is its language.
    """

    rows: Sequence[ResidentRow]
    text_search_config: str
    has_hidden: bool = False


@dataclass(frozen=True, slots=True)
class LogPosition:
    """The transactions of the log that were read, in an epoch."""

    epoch: str
    log: Snapshot


@dataclass(frozen=True, slots=True)
class TenantChanges:
    """Changed rows in the order of their first writing, and items that are gone or hidden.

    The rest is as in `TenantContent`; a tenant that is gone has no `text_search_config`.
    """

    rows: Sequence[ResidentRow] = ()
    gone: Sequence[ItemId] = ()
    text_search_config: str = ""
    has_hidden: bool = False


@dataclass(frozen=True, slots=True)
class ResidentDelta:
    """The changes of each tenant since a position, and the position after them."""

    position: LogPosition
    changes: Mapping[TenantName, TenantChanges] = field(default_factory=dict)


class TenantTooLargeError(Exception):
    """The tenant has more segments than its reader holds."""


class ResidentFeed(Protocol):
    """Reads tenants and their changes."""

    def heard(self, tenant: TenantName | None = None) -> int:
        """Returns the number of the last change announced: to a tenant, or to any.

        An announcement that may have been missed counts as one to all tenants.
        """

    async def position(self) -> LogPosition:
        """Returns the position of all that is committed."""

    async def content(self, tenant: TenantName, most: int) -> TenantContent | None:
        """Returns the rows of a tenant; None for an unknown one.

        Raises:
            TenantTooLargeError: It has more than `most` segments.
        """

    async def changes_since(
        self, position: LogPosition, tenants: Collection[TenantName]
    ) -> ResidentDelta:
        """Returns the changes of these tenants since a position.

        Raises:
            FeedLostError: The position is of another epoch, or too old.
        """

    async def wait(self, timeout_s: float) -> None:
        """Returns when something changed, or after the timeout."""
