"""The position of a reader that goes through the changes of one tenant, row by row of the log."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple, Self

from serving.domain.consistency import (
    MAX_XID,
    NOTHING_SEEN,
    Snapshot,
    position_after,
)

_TOKEN = re.compile(
    r"2~(?P<epoch>[\w-]{1,64})~(?P<xmax>\d{1,19})~(?P<in_progress>[\d.]*)~(?P<begun>[\d.:]*)",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class ChangesPosition:
    """The position of a reader of the log: whole transactions, and beginnings of others.

    `begun` has the sequence number up to which the rows of a transaction were read. It has more
    than one if a transaction of a lower id was committed after another was begun.
    """

    epoch: str
    log: Snapshot
    begun: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parses the output of `str()`; raises `ValueError` for other text."""
        parts = _TOKEN.fullmatch(text)
        if parts is None:
            raise ValueError("not a position of this version")
        xmax = int(parts["xmax"])
        in_progress = frozenset(int(xid) for xid in parts["in_progress"].split(".") if xid)
        pairs = (each.split(":") for each in parts["begun"].split(".") if each)
        begun = {int(xid): int(seq) for xid, seq in pairs}
        xids = {xmax, *in_progress, *begun}
        if max(xids | {*begun.values()}) > MAX_XID or min(xids) < NOTHING_SEEN.xmax:
            raise ValueError("not transactions of PostgreSQL")
        return cls(parts["epoch"], Snapshot(xmax, in_progress), begun)

    def __str__(self) -> str:
        in_progress = ".".join(str(xid) for xid in sorted(self.log.in_progress))
        begun = ".".join(f"{xid}:{seq}" for xid, seq in sorted(self.begun.items()))
        return f"2~{self.epoch}~{self.log.xmax}~{in_progress}~{begun}"


class LogRow(NamedTuple):
    """A row of the log: its transaction, and its sequence number."""

    xid: int
    seq: int


def positions_after(
    position: ChangesPosition, now: Snapshot, rows: Sequence[LogRow], *, last: bool
) -> list[ChangesPosition]:
    """The position after each row, of rows in the order of transactions and sequence numbers.

    Args:
        position: That from which they were read.
        now: The snapshot in which they were read.
        rows: All rows beyond the position, or the first of them.
        last: Whether these are all, so that the last transaction has no more.
    """
    positions = []
    for row, following in zip_longest(rows, rows[1:]):
        if last if following is None else following.xid != row.xid:
            log = position_after(position.log, now, newest=row.xid)
            begun = {xid: seq for xid, seq in position.begun.items() if not log.includes(xid)}
        else:
            log, begun = position.log, {**position.begun, row.xid: row.seq}
        position = ChangesPosition(position.epoch, log, begun)
        positions.append(position)
    return positions
