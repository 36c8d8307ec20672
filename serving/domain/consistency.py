"""Where a reader of the change log is, and whether it has seen a write.

A position is a PostgreSQL snapshot: the set of transactions whose effects it
includes. A sequence number would not do, since transactions commit in another
order than they are numbered (measured: a fifth of the changes missed).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

MAX_TOKEN_TRANSACTIONS = 64
"""More than these are folded into "everything up to the newest"."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The transactions below `xmax`, without those in `in_progress`.

    `str()` is the text form of PostgreSQL's `pg_snapshot`.
    """

    xmax: int
    in_progress: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if self.in_progress and max(self.in_progress) >= self.xmax:
            raise ValueError(f"a transaction in progress is not below xmax {self.xmax}")

    @classmethod
    def parse(cls, text: str) -> Snapshot:
        """Reads `xmin:xmax:xid,xid...`.

        Raises:
            ValueError: `text` has another form.
        """
        _, xmax, in_progress = text.split(":")
        return cls(int(xmax), frozenset(int(xid) for xid in in_progress.split(",") if xid))

    def __str__(self) -> str:
        listed = ",".join(str(xid) for xid in sorted(self.in_progress))
        return f"{self.xmin}:{self.xmax}:{listed}"

    @property
    def xmin(self) -> int:
        """The oldest transaction that it does not include."""
        return min(self.in_progress, default=self.xmax)

    def includes(self, xid: int) -> bool:
        """Whether the effects of transaction `xid` are in it."""
        return xid < self.xmax and xid not in self.in_progress

    def without(self, xids: Iterable[int]) -> Snapshot:
        """The same snapshot as if `xids` were still in progress."""
        later = frozenset(xid for xid in xids if xid < self.xmax)
        return Snapshot(self.xmax, self.in_progress | later)


NOTHING_SEEN = Snapshot(xmax=3)
"""Before every change: PostgreSQL's first ordinary transaction is 3."""


@dataclass(frozen=True, slots=True)
class ConsistencyToken:
    """The transactions of one or more writes, within one epoch of the log.

    The epoch changes when the database is restored from a dump, where
    transaction ids start anew.
    """

    epoch: str
    xids: frozenset[int]
    all_up_to: int = 0

    @classmethod
    def of(cls, epoch: str, xids: Iterable[int]) -> ConsistencyToken:
        """Makes the token of the given transactions, folding a long list."""
        distinct = frozenset(xids)
        if len(distinct) <= MAX_TOKEN_TRANSACTIONS:
            return cls(epoch, distinct)
        return cls(epoch, frozenset(), all_up_to=max(distinct))

    @classmethod
    def parse(cls, text: str) -> ConsistencyToken:
        """Reads what `str()` wrote.

        Raises:
            ValueError: `text` is no token.
        """
        version, epoch, all_up_to, xids = text.split("~")
        if version != "1" or not epoch:
            raise ValueError("not a consistency token of this version")
        return cls(epoch, frozenset(int(xid) for xid in xids.split(".") if xid), int(all_up_to))

    def __str__(self) -> str:
        listed = ".".join(str(xid) for xid in sorted(self.xids))
        return f"1~{self.epoch}~{self.all_up_to}~{listed}"

    def merged(self, other: ConsistencyToken) -> ConsistencyToken:
        """The token of both writes.

        Raises:
            ValueError: They are of different epochs.
        """
        if self.epoch != other.epoch:
            raise ValueError("tokens of different epochs cannot be merged")
        merged = ConsistencyToken.of(self.epoch, self.xids | other.xids)
        newest = max(self.all_up_to, other.all_up_to, merged.all_up_to)
        kept = frozenset(xid for xid in merged.xids if xid > newest)
        return ConsistencyToken(self.epoch, kept, newest)

    def seen_by(self, snapshot: Snapshot) -> bool:
        """Whether `snapshot` includes every write of the token."""
        if self.all_up_to and snapshot.xmin <= self.all_up_to:
            return False
        return all(snapshot.includes(xid) for xid in self.xids)
