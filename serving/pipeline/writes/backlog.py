"""Changes read from the log and not projected yet, to be taken from each tenant in turn.

Each change is read once, by position, and kept until it is projected; nothing is looked up of what
is done. So a tenant that writes little waits for one chunk, not for the backlog of another, and
draining a backlog costs as much as it is long.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass

from serving.domain.consistency import Snapshot
from serving.domain.items.records import TenantName
from serving.ports.change_log import Change, ChangeBatch


@dataclass(slots=True)
class _Read:
    """A batch that was read: the position after it, and how many of its changes are unfinished."""

    position: Snapshot
    unfinished: int


class Backlog:
    """The changes beyond a stored position, in the order of the log for each tenant."""

    def __init__(self) -> None:
        self.read_up_to: Snapshot | None = None
        """The position after all that was read; None before the first batch."""
        self._reads: deque[_Read] = deque()
        self._waiting: OrderedDict[TenantName, deque[tuple[Change, _Read]]] = OrderedDict()
        self._taken: list[_Read] = []
        self._count = 0

    def __len__(self) -> int:
        """The number of changes that were not taken."""
        return self._count

    def add(self, batch: ChangeBatch) -> None:
        """Adds the batch that follows `read_up_to`."""
        self.read_up_to = batch.position
        if not batch.changes and self._reads:
            self._reads[-1].position = batch.position
            return
        read = _Read(batch.position, len(batch.changes))
        self._reads.append(read)
        for change in batch.changes:
            self._waiting.setdefault(change.tenant, deque()).append((change, read))
        self._count += len(batch.changes)

    def take(self, limit: int) -> Sequence[Change]:
        """Takes the oldest change of each tenant in turn, until there are those of `limit` rows."""
        taken: dict[int, Change] = {}
        while self._waiting and len(taken) < limit:
            tenant, of_tenant = self._waiting.popitem(last=False)
            change, read = of_tenant.popleft()
            taken[change.key] = change
            self._count -= 1
            self._taken.append(read)
            if of_tenant:
                self._waiting[tenant] = of_tenant  # behind the others
        return list(taken.values())

    def finish(self) -> Snapshot | None:
        """Counts what was taken as projected; returns the position up to which all is, if new."""
        for read in self._taken:
            read.unfinished -= 1
        self._taken.clear()
        position = None
        while self._reads and not self._reads[0].unfinished:
            position = self._reads.popleft().position
        return position
