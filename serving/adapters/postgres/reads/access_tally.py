"""Access counts in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from serving.domain.consistency import Snapshot
from serving.domain.items.records import ItemId, TenantName


class Shown(NamedTuple):
    """How often an item was shown, and when last."""

    times: int
    last: datetime

    def __or__(self, other: Shown) -> Shown:
        """The sum of both."""
        return Shown(self.times + other.times, max(self.last, other.last))


class Tally:
    """Access counts by tenant and item.

    `xid` is the transaction that stores them, once there is one.
    """

    def __init__(self) -> None:
        self.xid: int | None = None
        self._shown: defaultdict[TenantName, dict[ItemId, Shown]] = defaultdict(dict)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __contains__(self, name: tuple[TenantName, ItemId]) -> bool:
        tenant, item = name
        return tenant in self._shown and item in self._shown[tenant]

    def __iter__(self) -> Iterator[tuple[TenantName, ItemId, Shown]]:
        for tenant, items in self._shown.items():
            for item, shown in items.items():
                yield tenant, item, shown

    def __or__(self, other: Tally) -> Tally:
        """The sum of both, as a tally that no transaction stores yet."""
        both = Tally()
        for tally in (self, other):
            for tenant, item, shown in tally:
                both.add(tenant, item, shown)
        return both

    def add(self, tenant: TenantName, item: ItemId, shown: Shown) -> None:
        """Adds accesses of an item."""
        items = self._shown[tenant]
        before = items.get(item)
        self._size += before is None
        items[item] = shown if before is None else before | shown

    def of_tenant(self, tenant: TenantName) -> Mapping[ItemId, Shown]:
        """The counts of one tenant."""
        return self._shown.get(tenant, {})

    def is_stored_in(self, snapshot: Snapshot) -> bool:
        """Whether a statement with this snapshot has read these counts from the table."""
        return self.xid is not None and snapshot.includes(self.xid)
