"""A tally in memory of what was shown, how often and when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from serving.domain.consistency import Snapshot
from serving.domain.records import ItemId, TenantName


class Shown(NamedTuple):
    """How often an item was shown, and when last."""

    times: int
    last: datetime

    def __or__(self, other: Shown) -> Shown:
        """Both taken together."""
        return Shown(self.times + other.times, max(self.last, other.last))


class Tally:
    """What was shown, by tenant and item.

    `xid` is the transaction that stores it, once there is one.
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
        """Both taken together, in a tally that no transaction stores yet."""
        both = Tally()
        for tally in (self, other):
            for tenant, item, shown in tally:
                both.add(tenant, item, shown)
        return both

    def add(self, tenant: TenantName, item: ItemId, shown: Shown) -> None:
        """Adds what was shown of an item."""
        items = self._shown[tenant]
        before = items.get(item)
        self._size += before is None
        items[item] = shown if before is None else before | shown

    def of_tenant(self, tenant: TenantName) -> Mapping[ItemId, Shown]:
        """What was shown of one tenant."""
        return self._shown.get(tenant, {})

    def is_stored_in(self, snapshot: Snapshot) -> bool:
        """Whether a statement that read this snapshot has read it as stored."""
        return self.xid is not None and snapshot.includes(self.xid)
