"""The position of a change-log reader, and whether it includes a write.

A position is a PostgreSQL snapshot: the set of transactions whose effects are visible.
A sequence number is not sufficient, because transactions do not commit in the order of
their numbers (measured: a reader by number missed a fifth of the changes).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

MAX_TOKEN_TRANSACTIONS = 64
"""A longer list is replaced by "everything up to the newest"."""

_TOKEN = re.compile(r"1~(?P<epoch>[\w-]{1,64})~(?P<all_up_to>\d{1,19})~(?P<xids>[\d.]*)", re.ASCII)
MAX_XID = 2**63 - 1
"""The largest transaction id that is passed to PostgreSQL, as int8."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The transactions below `xmax`, except those in `in_progress`.

    `str()` is the text form of PostgreSQL's `pg_snapshot`.
    """

    xmax: int
    in_progress: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if self.in_progress and max(self.in_progress) >= self.xmax:
            raise ValueError(f"a transaction in progress is not below xmax {self.xmax}")

    @classmethod
    def parse(cls, text: str) -> Snapshot:
        """Parses `xmin:xmax:xid,xid...`; raises `ValueError` for other text."""
        _, xmax, in_progress = text.split(":")
        return cls(int(xmax), frozenset(int(xid) for xid in in_progress.split(",") if xid))

    def __str__(self) -> str:
        listed = ",".join(str(xid) for xid in sorted(self.in_progress))
        return f"{self.xmin}:{self.xmax}:{listed}"

    @property
    def xmin(self) -> int:
        """The oldest transaction that is not included."""
        return min(self.in_progress, default=self.xmax)

    def includes(self, xid: int) -> bool:
        """Whether the snapshot includes the effects of transaction `xid`."""
        return xid < self.xmax and xid not in self.in_progress

    def up_to(self, newest: int) -> Snapshot:
        """The same snapshot, without the transactions after `newest`.

        A reader that keeps its position in memory takes the newest transaction that it has read
        for `newest`, since PostgreSQL forgets in a crash what it has not written: it then gives
        ids again that were those of aborted transactions, and that the snapshot includes.
        """
        xmax = min(self.xmax, newest + 1)
        return Snapshot(xmax, frozenset(xid for xid in self.in_progress if xid < xmax))

    def without(self, xids: Iterable[int]) -> Snapshot:
        """The same snapshot, with `xids` treated as still in progress."""
        later = frozenset(xid for xid in xids if xid < self.xmax)
        return Snapshot(self.xmax, self.in_progress | later)


NOTHING_SEEN = Snapshot(xmax=3)
"""The position before all changes: the first ordinary transaction of PostgreSQL is 3."""


def position_after(position: Snapshot, now: Snapshot, newest: int) -> Snapshot:
    """The position of a reader that has processed the log up to transaction `newest`, by id.

    `position` was its former one, and `now` the snapshot in which it read the log. The result is
    `now` without the transactions after `newest`; its size does not grow with their number.
    """
    xmax = max(position.xmax, newest + 1)
    missing = {xid for xid in now.in_progress if xid < xmax}
    missing |= {xid for xid in position.in_progress if xid > newest}
    return Snapshot(xmax, frozenset(missing))


@dataclass(frozen=True, slots=True)
class ConsistencyToken:
    """The transactions of one or more writes, within one epoch of the log.

    The epoch changes when the database is restored from a dump, because transaction ids then
    start again.
    """

    epoch: str
    xids: frozenset[int]
    all_up_to: int = 0

    @classmethod
    def of(cls, epoch: str, xids: Iterable[int]) -> ConsistencyToken:
        """Creates the token of the given transactions; shortens a long list."""
        distinct = frozenset(xids)
        if len(distinct) <= MAX_TOKEN_TRANSACTIONS:
            return cls(epoch, distinct)
        return cls(epoch, frozenset(), all_up_to=max(distinct))

    @classmethod
    def parse(cls, text: str) -> ConsistencyToken:
        """Parses the output of `str()`; raises `ValueError` for other text."""
        parts = _TOKEN.fullmatch(text)
        if parts is None:
            raise ValueError("not a consistency token of this version")
        xids = frozenset(int(xid) for xid in parts["xids"].split(".") if xid)
        all_up_to = int(parts["all_up_to"])
        if len(xids) > MAX_TOKEN_TRANSACTIONS or max(xids | {all_up_to}) > MAX_XID:
            raise ValueError("not transactions of PostgreSQL")
        return cls(parts["epoch"], xids, all_up_to)

    def __str__(self) -> str:
        listed = ".".join(str(xid) for xid in sorted(self.xids))
        return f"1~{self.epoch}~{self.all_up_to}~{listed}"

    def merged(self, other: ConsistencyToken) -> ConsistencyToken:
        """The token that covers both writes; raises `ValueError` for tokens of different epochs."""
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
