"""The changes of a tenant's items, for readers outside the service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from serving.domain.changes import ChangesPosition
from serving.domain.consistency import ConsistencyToken
from serving.domain.items.records import ItemId, TenantName


class ItemChange(NamedTuple):
    """A change of an item, and the position after it."""

    item: ItemId
    erased: bool
    after: ChangesPosition


@dataclass(frozen=True, slots=True)
class ChangesRead:
    """Changes in their order, and the position after them; `last` if there were no more."""

    changes: Sequence[ItemChange]
    position: ChangesPosition
    last: bool = True


class ChangeFeed(Protocol):
    """Reads the changes of a tenant from a position on."""

    async def now(self) -> ChangesPosition:
        """Returns the position after all that is committed."""

    async def after_write(self, token: ConsistencyToken) -> ChangesPosition:
        """Returns a position beyond which is all that was committed after a write.

        What was committed up to ten minutes before the write may be beyond it too, since a token
        does not say which transactions were in progress.

        Raises:
            ChangesGoneError: The log does not have them any more.
        """

    async def read(self, tenant: TenantName, position: ChangesPosition, limit: int) -> ChangesRead:
        """Returns at most `limit` changes beyond a position, of each item the last alone.

        Raises:
            ChangesGoneError: The log does not have them any more.
        """

    def heard(self) -> int:
        """Returns how many changes were announced so far. Read it before `read`."""

    async def wait_beyond(self, heard: int, timeout_s: float) -> None:
        """Returns once more changes were announced than `heard`, or after the timeout."""
